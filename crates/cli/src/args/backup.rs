//! `backup` and `restore`: how they are spelled.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Json, examples};

#[derive(Args)]
#[command(after_help = examples::BACKUP, args_conflicts_with_subcommands = true)]
pub(crate) struct Backup {
    #[command(subcommand)]
    pub(crate) verb: Option<BackupVerb>,
    /// The file to write, which must not be there yet; without it the copies are listed
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

impl Backup {
    /// Only looks at what the database remembers.
    pub(crate) fn is_list(&self) -> bool {
        match (&self.verb, &self.file) {
            (Some(BackupVerb::List(_)), _) | (None, None) => true,
            (Some(BackupVerb::Verify { .. }), _) | (None, Some(_)) => false,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum BackupVerb {
    /// Restore a copy to scratch and compare every table
    Verify {
        /// The file to look at
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// The copies made of this database, newest first (also without a verb)
    List(Json),
}

#[derive(Args)]
pub(crate) struct Restore {
    /// A file that `backup` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) json: Json,
}
