//! `--limit` and `--cursor` of paged lists.

use clap::Args;
use windlass_pack::api::ApiRequest;

#[derive(Args, Clone, Copy)]
pub(crate) struct Paging {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that ended with this id
    #[arg(long, value_name = "ID")]
    cursor: Option<i64>,
}

impl Paging {
    /// The request for this page.
    pub(crate) fn of(self, list: ApiRequest) -> ApiRequest {
        list.query("limit", Some(self.limit)).query("cursor", self.cursor)
    }
}
