//! The table of limits: names, rules and texts, and the fields in spec and update.

use super::field::{live_change, put, set_live_change};
use super::{KEY_CONCURRENCY, Lift, Limit, LimitForm, LimitOwner, LimitRow, LimitValue, PERMITS};
use crate::lane::MAX_KEY_CONCURRENCY;
use crate::queue::{MAX_CONCURRENCY, MAX_DEPTH_CAP, MAX_GLOBAL_CONCURRENCY};
use crate::resource::MAX_PERMITS;
use crate::scale::Bounds;
use crate::store::Live;
use crate::{KindSpec, QueueSpec};

/// For a field with the same name in spec and update.
macro_rules! row {
    ($field:ident, $limit:expr) => {
        LimitRow {
            limit: $limit,
            get: |spec| super::field::Field::value(spec.$field),
            set: |spec, value| put(&mut spec.$field, value),
            live_change: |update| live_change(update.$field),
            set_live_change: |update, live| set_live_change(&mut update.$field, live),
        }
    };
}

/// For the permits of the resource that the spec names.
macro_rules! permits {
    ($default:literal, $about:literal) => {
        LimitRow {
            limit: Limit {
                name: PERMITS,
                owner: LimitOwner::Resource,
                column: "permits",
                form: LimitForm::Number { max: MAX_PERMITS as u64 },
                lift: Lift::Never,
                over: "one process",
                default: $default,
                example: Some("3"),
                about: $about,
            },
            get: |spec| super::field::Field::value(spec.resource.as_ref()?.permits),
            set: |spec, value| {
                if let Some(resource) = &mut spec.resource {
                    put(&mut resource.permits, value);
                }
            },
            live_change: |update| live_change(update.permits),
            set_live_change: |update, live| set_live_change(&mut update.permits, live),
        }
    };
}

/// The order is used for all listings.
pub static QUEUE_LIMITS: [LimitRow<QueueSpec>; 7] = [
    row!(
        concurrency,
        Limit {
            name: "concurrency",
            owner: LimitOwner::Queue,
            column: "concurrency",
            form: LimitForm::Number { max: MAX_CONCURRENCY as u64 },
            lift: Lift::Never,
            over: "one process",
            default: "the family's, else 10",
            example: Some("20"),
            about: "Jobs of this queue that one process runs at once",
        }
    ),
    LimitRow {
        limit: Limit {
            name: "concurrency_min",
            column: "concurrency_min",
            example: Some("5"),
            about: "With concurrency_max: each process moves its concurrency between the two",
            ..BOUND
        },
        get: |queue| Some(LimitValue::Number(queue.bounds?.min.into())),
        set: |queue, value| {
            queue.bounds = bounds(queue.bounds, value, |bounds, min| Bounds { min, ..bounds })
        },
        live_change: |update| {
            update.bounds.map(|live| live.map(|bounds| Some(LimitValue::Number(bounds?.min.into()))))
        },
        set_live_change: |update, live| {
            let before = update.bounds.and_then(Live::set).flatten();
            update.bounds =
                Some(live.map(|value| bounds(before, value, |bounds, min| Bounds { min, ..bounds })));
        },
    },
    LimitRow {
        limit: Limit {
            name: "concurrency_max",
            column: "concurrency_max",
            example: Some("40"),
            about: "Grows to this while the backlog would miss half the SLA and runs do not get slower",
            ..BOUND
        },
        get: |queue| Some(LimitValue::Number(queue.bounds?.max.into())),
        set: |queue, value| {
            queue.bounds = bounds(queue.bounds, value, |bounds, max| Bounds { max, ..bounds })
        },
        live_change: |update| {
            update.bounds.map(|live| live.map(|bounds| Some(LimitValue::Number(bounds?.max.into()))))
        },
        set_live_change: |update, live| {
            let before = update.bounds.and_then(Live::set).flatten();
            update.bounds =
                Some(live.map(|value| bounds(before, value, |bounds, max| Bounds { max, ..bounds })));
        },
    },
    row!(
        global_concurrency,
        Limit {
            name: "global_concurrency",
            owner: LimitOwner::Queue,
            column: "global_concurrency",
            form: LimitForm::Number { max: MAX_GLOBAL_CONCURRENCY as u64 },
            lift: Lift::Always,
            over: "all processes",
            default: "none",
            example: None,
            about: "Jobs of this queue that run at once over all processes",
        }
    ),
    permits!(
        "SCREENSHOT: 3, else 1",
        "Permits of the resource per process; a job is claimed only with a permit"
    ),
    row!(
        depth_cap,
        Limit {
            name: "depth_cap",
            owner: LimitOwner::Queue,
            column: "depth_cap",
            form: LimitForm::Number { max: MAX_DEPTH_CAP },
            lift: Lift::Always,
            over: "the database",
            default: "none",
            example: None,
            about: "Waiting jobs above which enqueues are refused",
        }
    ),
    row!(
        boost_after,
        Limit {
            name: "boost_after",
            owner: LimitOwner::Queue,
            column: "boost_after_us",
            form: LimitForm::Duration,
            lift: Lift::Always,
            over: "one process",
            default: "10m",
            example: None,
            about: "Jobs due for longer get a quarter of the slots whatever their priority",
        }
    ),
];

/// The order is used for all listings.
pub static KIND_LIMITS: [LimitRow<KindSpec>; 3] = [
    row!(
        rate,
        Limit {
            name: "rate",
            owner: LimitOwner::Kind,
            column: "rate",
            form: LimitForm::Rate,
            lift: Lift::Always,
            over: "all processes",
            default: "none",
            example: Some("500/s"),
            about: "Starts of all processes together, such as `500/s` or `30/m`",
        }
    ),
    permits!("as set elsewhere for the resource, else 1", "Permits of the resource per process"),
    row!(
        key_concurrency,
        Limit {
            name: KEY_CONCURRENCY,
            owner: LimitOwner::Kind,
            column: "key_concurrency",
            form: LimitForm::Number { max: MAX_KEY_CONCURRENCY as u64 },
            lift: Lift::Never,
            over: "all processes",
            default: "1",
            example: None,
            about: "Jobs with one `concurrency_key` that are ready or running at once, over all processes",
        }
    ),
];

/// Shared by the two concurrency bounds. They are set and removed together ([`Bounds::change`]).
const BOUND: Limit = Limit {
    name: "",
    owner: LimitOwner::Queue,
    column: "",
    form: LimitForm::Number { max: MAX_CONCURRENCY as u64 },
    lift: Lift::Live,
    over: "one process",
    default: "concurrency",
    example: None,
    about: "",
};

/// Replaces one bound. If there was no pair, both get the value, and the other bound is set afterwards.
fn bounds(
    before: Option<Bounds>,
    value: Option<LimitValue>,
    with: fn(Bounds, u32) -> Bounds,
) -> Option<Bounds> {
    let Some(LimitValue::Number(number)) = value else { return None };
    let number = u32::try_from(number).ok()?;
    Some(with(before.unwrap_or(Bounds { min: number, max: number }), number))
}
