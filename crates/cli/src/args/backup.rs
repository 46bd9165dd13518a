//! Arguments of `backup` and `restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Json, examples};

#[derive(Args)]
#[command(after_help = examples::BACKUP, args_conflicts_with_subcommands = true)]
pub(crate) struct Backup {
    #[command(subcommand)]
    pub(crate) verb: Option<BackupVerb>,
    /// The file to write, which must not exist; without it, backups are listed
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

impl Backup {
    /// Whether it only lists backups.
    pub(crate) fn is_list(&self) -> bool {
        match (&self.verb, &self.file) {
            (Some(BackupVerb::List(_)), _) | (None, None) => true,
            (Some(BackupVerb::Verify { .. }), _) | (None, Some(_)) => false,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum BackupVerb {
    /// Restore a backup to a scratch database and compare every table
    Verify {
        /// The file to verify
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
    /// Backups of this database, newest first (also without a verb)
    List(Json),
}

#[derive(Args)]
pub(crate) struct Restore {
    /// A file written by `backup`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) json: Json,
}
