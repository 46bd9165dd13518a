//! The dashboard and the readable document: files that are part of the binary, with no script or style written into the
//! page.

use axum::http::Method;

use crate::route::{Answered, Route, text};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

pub(super) fn routes() -> Vec<Route> {
    let script = |path, name, about, content| page(path, name, about, SCRIPT, content);
    vec![
        page("/", "dashboard", "The dashboard", HTML, include_str!("../page/index.html")),
        page("/docs", "documentation", "This document, readable", HTML, include_str!("../page/docs.html")),
        script("/assets/app.js", "script_app", "The dashboard's script", include_str!("../page/app.js")),
        script("/assets/jobs.js", "script_jobs", "Its list of jobs", include_str!("../page/jobs.js")),
        script("/assets/search.js", "script_search", "Its search", include_str!("../page/search.js")),
        script("/assets/detail.js", "script_detail", "Its dialog", include_str!("../page/detail.js")),
        script("/assets/docs.js", "script_docs", "The script of /docs", include_str!("../page/docs.js")),
        script("/assets/dom.js", "script_dom", "What the scripts share", include_str!("../page/dom.js")),
        page("/assets/app.css", "style", "The style of both pages", STYLE, include_str!("../page/app.css")),
        page("/assets/icon.svg", "icon", "The icon", "image/svg+xml", include_str!("../page/icon.svg")),
    ]
}

fn page(
    path: &'static str,
    name: &'static str,
    about: &'static str,
    content_type: &'static str,
    content: &'static str,
) -> Route {
    Route::new(Method::GET, path, name, about, move |_| async move { Ok(text(content_type, content)) })
        .answers(
            200,
            about,
            Answered::Media(content_type.split_once(';').map_or(content_type, |(media, _)| media)),
        )
}
