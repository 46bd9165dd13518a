//! Rate tokens: one row per kind, advanced as `core` decides.
//!
//! Never decides how many are granted. With one writer, reading and then writing the row is safe.

use windlass_core::store::TokenLease;
use windlass_core::{KindId, Time};

use crate::error::Answer;
use crate::limit::rate;
use crate::scope::Scope;

pub(crate) fn lease_tokens(
    scope: &mut Scope<'_>,
    kind: KindId,
    wanted: u32,
    unspent: u32,
) -> Answer<TokenLease> {
    let mut statement = scope.connection.prepare_cached(
        "select k.rate, coalesce(r.given_until, 0)
         from windlass_kinds k left join windlass_rates r on r.kind = k.id where k.id = ?1",
    )?;
    let mut rows = statement.query([kind.0])?;
    let known = match rows.next()? {
        Some(row) => Some((rate(row, 0)?, Time(row.get(1)?))),
        None => None,
    };
    let Some((Some(rate), given_until)) = known else {
        return Ok(TokenLease { granted: wanted, wait: std::time::Duration::ZERO });
    };
    let grant = rate.lease(given_until, scope.now, wanted, unspent);
    if grant.given_until != given_until {
        scope
            .connection
            .prepare_cached(
                "insert into windlass_rates (kind, given_until) values (?1, ?2)
                 on conflict (kind) do update set given_until = excluded.given_until",
            )?
            .execute((kind.0, grant.given_until.0))?;
    }
    Ok(TokenLease { granted: grant.granted, wait: grant.wait })
}
