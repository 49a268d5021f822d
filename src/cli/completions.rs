//! `completions` and `man`: what shells and `man` know of the command line. They are made from its definition.

use std::fs;

use super::command_args::{CompletionsArgs, ManArgs};
use super::exit::{CliError, Exit};
use super::{help, output};

pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), &args.name, &mut script);
    output::print_text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}

pub(super) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    match &args.dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(help::command()).render(&mut page)?;
            output::print_text(&String::from_utf8_lossy(&page))?;
        }
        Some(dir) => {
            let unwritable = |error| CliError::failed(format!("writing to {}: {error}", dir.display()));
            // The directory itself is not made: a wrong path must not go unnoticed.
            fs::read_dir(dir).map_err(unwritable)?;
            clap_mangen::generate_to(help::command(), dir).map_err(unwritable)?;
        }
    }
    Ok(Exit::Fine)
}
