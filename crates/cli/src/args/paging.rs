//! `--limit` and `--cursor` of every list that has pages.

use clap::Args;

#[derive(Args, Clone, Copy)]
pub(crate) struct Paging {
    /// Most rows to print
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Go on after the page that ended with this id
    #[arg(long, value_name = "ID")]
    pub(crate) cursor: Option<i64>,
}

impl Paging {
    /// One more than wanted tells whether there is a next page.
    pub(crate) fn asked(self) -> u32 {
        self.limit + 1
    }

    /// Leaves the page, and says where the next one begins if there is one.
    pub(crate) fn cut<T>(self, found: &mut Vec<T>, id: impl Fn(&T) -> String) -> Option<String> {
        let more = found.len() > self.limit as usize;
        found.truncate(self.limit as usize);
        found.last().filter(|_| more).map(id)
    }
}
