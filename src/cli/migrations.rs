//! `migrations copy`: writes the schema's versions as folders of the application's own Diesel migrations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use diesel_jobs_storage::Backend;
use diesel_jobs_storage::migrations::{self, Migration};
use serde::Serialize;

use super::app::App;
use super::command_args::MigrationsAction;
use super::exit::{CliError, Exit};
use super::output;

/// One folder, and whether it must be written.
#[derive(Serialize)]
struct Folder {
    path: PathBuf,
    written: bool,
    #[serde(skip)]
    files: [(PathBuf, &'static str); 2],
}

pub(super) fn migrations(app: &App<'_>, action: &MigrationsAction) -> Result<Exit, CliError> {
    let MigrationsAction::Copy { dir, backend } = action;
    let backend = backend.resolve(app.url_if_known())?;
    if !app.json {
        output::complain(&format!("the schema for {backend}"));
    }
    let folders = copy(dir, backend)?;
    output::print(app.json, &folders, || {
        let word = |written| if written { "wrote" } else { "unchanged" };
        folders.iter().map(|folder| format!("{:<9}  {}\n", word(folder.written), folder.path.display())).collect()
    })?;
    Ok(Exit::Fine)
}

/// Checks every folder before it writes the first one. So a refusal leaves the directory unchanged. The directory is
/// created if it is missing, as `diesel setup` does.
fn copy(dir: &Path, backend: Backend) -> Result<Vec<Folder>, CliError> {
    if dir.exists() && !dir.is_dir() {
        return Err(CliError::failed(format!(
            "{} is not a directory; name your Diesel migrations directory",
            dir.display()
        )));
    }
    let folders: Vec<Folder> =
        migrations::of(backend).iter().map(|m| plan(dir, backend, m)).collect::<Result<_, _>>()?;
    for folder in folders.iter().filter(|folder| folder.written) {
        let failed = |error| CliError::failed(format!("writing {}: {error}", folder.path.display()));
        fs::create_dir_all(&folder.path).map_err(failed)?;
        for (path, text) in &folder.files {
            fs::write(path, text).map_err(failed)?;
        }
    }
    Ok(folders)
}

/// Returns the folder of one version, and whether it must be written. Fails if a file differs. It may
/// contain changes made by hand, so it is never overwritten.
fn plan(dir: &Path, backend: Backend, migration: &Migration) -> Result<Folder, CliError> {
    let path = dir.join(migration.folder());
    let files = [(path.join("up.sql"), migration.up), (path.join("down.sql"), migration.down)];
    let mut written = false;
    for (file, text) in &files {
        match fs::read_to_string(file) {
            Ok(found) if found == *text => {}
            Ok(_) => {
                return Err(CliError::failed(format!(
                    "{} differs from this program's for {backend}; nothing was written. Move it away and copy again to get the \
                     original, or name the other database: --backend",
                    file.display()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => written = true,
            Err(error) => return Err(CliError::failed(format!("reading {}: {error}", file.display()))),
        }
    }
    Ok(Folder { path, written, files })
}
