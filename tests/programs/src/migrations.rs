//! The copies of the jobs' migrations in an application.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Process;

/// Checks that an application's directory has the files which `migrations copy` of its worker writes. `repeat` is the
/// command that writes them.
pub async fn assert_copies_are_current(worker: &str, directory: &str, repeat: &str) {
    let away = tempfile::tempdir().unwrap();
    let path = away.path().to_str().unwrap();
    Process::start(worker, "", &["migrations", "copy", path, "--backend", "postgres"], &[]).succeeded().await;

    let (written, checked_in) = (files_of_jobs(away.path()), files_of_jobs(Path::new(directory)));
    assert!(!written.is_empty());
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&checked_in), names(&written), "run: {repeat}");
    // `assert_eq` would print both texts completely.
    let differ: Vec<_> =
        written.iter().filter(|(file, text)| checked_in[*file] != **text).map(|(file, _)| file).collect();
    assert!(differ.is_empty(), "{differ:?} differ; remove the folder, and run: {repeat}");
}

/// Returns the texts in the folders of the jobs' migrations.
fn files_of_jobs(directory: &Path) -> BTreeMap<String, String> {
    let folders = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    folders
        .filter(|folder| folder.contains("_jobs_"))
        .flat_map(|folder| ["up.sql", "down.sql"].map(|file| format!("{folder}/{file}")))
        .map(|file| (file.clone(), fs::read_to_string(directory.join(file)).unwrap()))
        .collect()
}
