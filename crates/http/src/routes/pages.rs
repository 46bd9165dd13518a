//! The dashboard and the API reference: files in the binary, without inline scripts or styles.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_pack::page::Asset;
use windlass_pack::{Answer, Answered, Call, Route, Schemas, Scope, Shape, ok, text};

use super::{Table, route};
use crate::app::App;
use crate::view::ListView;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let script = |path, name, about, content| page(path, name, about, SCRIPT, content);
    vec![
        route(app, Method::GET, "/v1/pages", "list_pages", "Dashboard pages of parts", list)
            .needs(Scope::Read)
            .json::<ListView<PageView>>(200, "Each as data: route, columns, filters, acts"),
        page("/", "dashboard", "The dashboard", HTML, include_str!("../page/index.html")),
        page("/docs", "documentation", "This document, readable", HTML, include_str!("../page/docs.html")),
        script("/assets/app.js", "script_app", "The dashboard's script", include_str!("../page/app.js")),
        script("/assets/jobs.js", "script_jobs", "Its list of jobs", include_str!("../page/jobs.js")),
        script("/assets/pages.js", "script_pages", "Its pages of parts", include_str!("../page/pages.js")),
        script("/assets/detail.js", "script_detail", "Its dialog", include_str!("../page/detail.js")),
        script("/assets/docs.js", "script_docs", "The script of /docs", include_str!("../page/docs.js")),
        script("/assets/dom.js", "script_dom", "What the scripts share", include_str!("../page/dom.js")),
        page("/assets/app.css", "style", "The style of both pages", STYLE, include_str!("../page/app.css")),
        page("/assets/icon.svg", "icon", "The icon", "image/svg+xml", include_str!("../page/icon.svg")),
    ]
}

/// A page as serialized by [`windlass_pack::page::Page`].
struct PageView;

impl Shape for PageView {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "object", "description": "name, title, route, columns, filters, acts, empty, module" })
    }
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    ok(&ListView::whole(app.parts.pages.iter().collect()))
}

/// A file from a part.
pub(crate) fn asset(asset: Asset) -> Route {
    page(asset.path, asset.name, "A file of a part's page", asset.content_type, asset.content)
}

fn page(
    path: &'static str,
    name: &'static str,
    about: &'static str,
    content_type: &'static str,
    content: &'static str,
) -> Route {
    Route::new(Method::GET, path, name, about, move |_| async move { Ok(text(content_type, content)) })
        .needs(Scope::Open)
        .answers(
            200,
            about,
            Answered::Media(content_type.split_once(';').map_or(content_type, |(media, _)| media)),
        )
}
