//! The macro that writes a worker's `main`.

/// Makes a binary the bundled worker: writes its `main`, with the whole command line of [`cli`](crate::cli).
///
/// Name the crate that holds the jobs. The linker leaves out a crate that a binary never names, and its jobs with it;
/// this is what makes them run. Further crates with jobs are named beside it by `use other_app as _;`.
///
/// ```
/// # extern crate core as my_app;
/// // src/bin/worker.rs
/// diesel_jobs::worker!(my_app);
/// ```
///
/// A worker that needs state, queues or limits of its own gets an `async fn` from `diesel_jobs::WorkerBuilder` to
/// `Result<diesel_jobs::WorkerBuilder, E>`, where `E` is any error:
///
/// ```
/// # extern crate self as my_app;
/// pub async fn setup_worker(worker: diesel_jobs::WorkerBuilder) -> Result<diesel_jobs::WorkerBuilder, std::io::Error> {
///     Ok(worker.state("shared by all handlers").queue("mail", 20))
/// }
///
/// # mod worker {
/// diesel_jobs::worker!(my_app, setup = my_app::setup_worker);
/// # }
/// # fn main() {}
/// ```
///
/// Jobs that stand in the binary itself need no name: `diesel_jobs::worker!()`, or `diesel_jobs::worker!(setup = setup_worker)`.
#[macro_export]
macro_rules! worker {
    () => {
        fn main() -> ::std::process::ExitCode {
            $crate::cli::main()
        }
    };
    (setup = $setup:expr $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::cli::main_with($setup)
        }
    };
    ($app:ident $(,)?) => {
        use $app as _;
        $crate::worker!();
    };
    ($app:ident, setup = $setup:expr $(,)?) => {
        use $app as _;
        $crate::worker!(setup = $setup);
    };
}
