//! `--limit` and `--cursor` of every list that has pages.

use clap::Args;
use windlass_pack::api::ApiRequest;

#[derive(Args, Clone, Copy)]
pub(crate) struct Paging {
    /// Most rows to print
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Go on after the page that ended with this id
    #[arg(long, value_name = "ID")]
    cursor: Option<i64>,
}

impl Paging {
    /// The request for this page of a list.
    pub(crate) fn of(self, list: ApiRequest) -> ApiRequest {
        list.query("limit", Some(self.limit)).query("cursor", self.cursor)
    }
}
