//! A small disk that can be filled to its last byte: a file system in memory, used only by the server of one test.
//!
//! Root mounts it. Other users mount it in a namespace of their own, where Linux allows that, and reach it through the
//! process that runs in the namespace.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::Process;

/// How long the creation of a namespace may take.
const START: Duration = Duration::from_secs(10);
/// The bytes of one write.
static CHUNK: [u8; 64 << 10] = [0; 64 << 10];
/// Where the disk is mounted in a namespace of its own: a directory that always exists.
const PLACE: &str = "/mnt";

/// The disk. When it is dropped, it is removed with all its files.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    /// The process in the namespace of the mount. `None` if the disk is mounted in the namespace of this process.
    resident: Option<Process>,
}

impl SmallDisk {
    /// Mounts a disk of this many MiB: on `dir` if this process is root, otherwise in a namespace. An error names the
    /// missing right.
    pub fn mount(dir: &Path, logs: &Path, mebibytes: usize) -> Result<Self> {
        let options = format!("size={mebibytes}m,mode=0777");
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all(dir)?;
            // A suite that was killed left its disk mounted.
            let _ = unmount(dir);
            run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir))?;
            return Ok(Self { path: dir.to_owned(), resident: None });
        }
        let script = format!("mount -t tmpfs -o {options} tmpfs {PLACE} && echo mounted >&2 && read -r nothing");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        let mut resident = Process::start(command, logs.join("disk.log"))
            .context("needs the right to mount, or to make name spaces")?;
        if !wait(&mut resident) {
            bail!("needs the right to mount, or to make name spaces: {}", resident.written()?.trim());
        }
        let path = PathBuf::from(format!("/proc/{}/root{PLACE}", resident.id()));
        Ok(Self { path, resident: Some(resident) })
    }

    /// The path at which this process reaches the disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Writes until the disk is full.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        let mut size = CHUNK.len();
        while size > 0 {
            match ballast.write(&CHUNK[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => size /= 16,
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
        Ok(())
    }

    /// Removes what `fill` wrote.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.ballast()).context("cannot make room on the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        match &mut self.resident {
            Some(resident) => resident.hang_up(),
            None => drop(unmount(&self.path)),
        }
    }
}

/// Unmounts lazily: a process with an open file on the disk can still use the file.
fn unmount(dir: &Path) -> Result<()> {
    run(Command::new("umount").arg("--lazy").arg(dir))
}

/// Waits until the disk is mounted. Returns `false` if the process ended before, or after `START`.
fn wait(resident: &mut Process) -> bool {
    let begun = std::time::Instant::now();
    while begun.elapsed() < START && resident.is_alive().unwrap_or(false) {
        if resident.written().is_ok_and(|text| text.contains("mounted")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("needs the right to mount: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
