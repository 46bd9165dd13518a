//! Rate tokens: one row per kind, advanced as `core` decides.
//!
//! Never decides how many are granted, and never locks the row across a round trip: a process that stalls between
//! reading and writing must not stop all jobs of the kind. So the write is conditional on what was read, and a lost
//! race is read again.

use std::time::Duration;

use windlass_core::store::TokenLease;
use windlass_core::{KindId, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::limit::parse_rate;
use crate::row::{PgTime, get, time, time_or_none};

const READ: &str = "
    select k.rate, r.given_until,
           statement_timestamp() + $2::bigint * interval '1 microsecond' as now
    from windlass.kinds k left join windlass.rates r on r.kind = k.id where k.id = $1";

const MOVE: &str = "update windlass.rates set given_until = $3 where kind = $1 and given_until = $2";

const FIRST: &str = "insert into windlass.rates (kind, given_until) values ($1, $2) on conflict do nothing";

const OP: &str = "lease rate tokens";
/// Each lost race is a lease of another process; after this many nothing is left to lease.
const TRIES: u32 = 5;

impl PostgresStore {
    pub(crate) async fn do_lease_tokens(
        &self,
        kind: KindId,
        wanted: u32,
        unspent: u32,
    ) -> Result<TokenLease, StoreError> {
        for _ in 0..TRIES {
            let read = sqlx::query(self.sql(READ)).bind(kind.0).bind(self.offset());
            let row = read.fetch_optional(&self.pool).await.map_err(failed(OP))?;
            let known = row.map(|row| {
                let rate = parse_rate(get(&row, "rate")?)?;
                Ok((rate, time_or_none(&row, "given_until")?, time(&row, "now")?))
            });
            let Some((Some(rate), given_until, now)) = known.transpose()? else {
                return Ok(TokenLease { granted: wanted, wait: Duration::ZERO });
            };
            let grant = rate.lease(given_until.unwrap_or(crate::hint::BOTTOM), now, wanted, unspent);
            let written = match given_until {
                Some(before) if before == grant.given_until => true,
                Some(before) => {
                    let write = sqlx::query(self.sql(MOVE)).bind(kind.0).bind(PgTime(before));
                    let done = write.bind(PgTime(grant.given_until)).execute(&self.pool).await;
                    done.map_err(failed(OP))?.rows_affected() == 1
                }
                None => {
                    let write = sqlx::query(self.sql(FIRST)).bind(kind.0).bind(PgTime(grant.given_until));
                    write.execute(&self.pool).await.map_err(failed(OP))?.rows_affected() == 1
                }
            };
            if written {
                return Ok(TokenLease { granted: grant.granted, wait: grant.wait });
            }
        }
        Ok(TokenLease { granted: 0, wait: Duration::ZERO })
    }
}
