//! The macro that generates a worker's `main`.

/// Generates the `main` function of a worker binary, with the whole command line of [`cli`](crate::cli).
///
/// Name the crate that contains your jobs: the linker drops a crate that the binary does not reference, and its jobs
/// with it. If further crates contain jobs, add `use other_app as _;` for each of them.
///
/// ```
/// # extern crate core as my_app;
/// // src/bin/worker.rs
/// diesel_jobs::worker!(my_app);
/// ```
///
/// To give the worker state, layers, queues or other settings, name a setup function. It is an `async fn` that takes a
/// `diesel_jobs::WorkerBuilder` and returns a `Result<diesel_jobs::WorkerBuilder, E>`, where `E` is any error:
///
/// ```
/// # extern crate self as my_app;
/// pub async fn setup_worker(worker: diesel_jobs::WorkerBuilder) -> Result<diesel_jobs::WorkerBuilder, std::io::Error> {
///     Ok(worker.state("shared by all handlers"))
/// }
///
/// # mod worker {
/// diesel_jobs::worker!(my_app, setup = my_app::setup_worker);
/// # }
/// # fn main() {}
/// ```
///
/// If the jobs are in the binary itself, omit the crate: `diesel_jobs::worker!()` or `diesel_jobs::worker!(setup =
/// setup_worker)`.
#[cfg(feature = "cli")]
#[macro_export]
macro_rules! worker {
    () => {
        $crate::worker!(
            setup = async |worker: $crate::WorkerBuilder| {
                ::core::result::Result::<_, ::core::convert::Infallible>::Ok(worker)
            }
        );
    };
    (setup = $setup:expr $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            // The version of the package that calls this macro.
            $crate::__private::main_of_version(::core::env!("CARGO_PKG_VERSION"), $setup)
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

/// Takes the place of the macro in builds without the feature `cli`: it fails to compile, with an error that names the
/// feature.
#[cfg(not(feature = "cli"))]
#[macro_export]
macro_rules! worker {
    ($($tokens:tt)*) => {
        ::core::compile_error!(
            "`diesel_jobs::worker!` needs the feature `cli` of `diesel-jobs`: add it to the `features` of the dependency in Cargo.toml"
        );
        // Without it there would be a second error, which says that `main` is missing.
        fn main() {}
    };
}
