//! What has to be right beyond single values, as far as no network is needed to see it.

use super::mistake::Mistake;
use super::{Loaded, Origin, Place};
use crate::cli::ServeArgs;
use crate::globe::{Database, Globe};
use crate::place;
use crate::region::Region;
use crate::serve::{ServeError, wire};

/// The flags that a mistake may be in, the likeliest first, and what has to be right.
type Check = (&'static [&'static str], fn(&ServeArgs) -> Result<(), ServeError>);

const CHECKS: &[Check] = &[
    (&["root_key"], |args| args.check_key().map_err(ServeError::InvalidKey)),
    (&["fleet_secret"], |args| secret(args).map(|_| ())),
    (&["redis"], region),
    (&["region", "globe"], |args| Ok(Globe::parse(args).map(|_| ())?)),
    (&["database"], database),
    (&["data"], data),
    (&["tls_cert", "tls_key", "plain_http"], |args| wire::check_tls(&args.transport)),
    (&["listen"], wire::check_plain),
    (&["admin_listen", "admin_exposed"], |args| wire::check_admin(&args.transport)),
    (&["tls_cert", "tls_key"], |args| wire::tls(&args.transport).map(|_| ())),
];

/// Everything that is wrong.
pub(super) fn all(loaded: &Loaded) -> Vec<Mistake> {
    let failed = |(ids, check): &Check| {
        let why = check(&loaded.args).err()?;
        Some(Mistake::new(place_of(loaded, ids), why.to_string()))
    };
    let mut mistakes: Vec<Mistake> = CHECKS.iter().filter_map(failed).collect();
    mistakes.sort_by_key(Mistake::rank);
    mistakes
}

/// Where the first of them was said, if it was where a place is known.
fn place_of(loaded: &Loaded, ids: &[&str]) -> Place {
    let values = ids.iter().filter_map(|id| loaded.values.iter().find(|it| it.knob.id == *id));
    let mut told = values.filter(|value| matches!(value.origin, Origin::File | Origin::Overlay));
    told.next().map_or(Place::Elsewhere, |value| value.place.clone())
}

fn secret(args: &ServeArgs) -> Result<Option<[u8; 32]>, ServeError> {
    args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)
}

fn region(args: &ServeArgs) -> Result<(), ServeError> {
    // One mistake is told once: a wrong secret is that of another check.
    let secret = secret(args).unwrap_or_default();
    args.redis.as_deref().map(|url| Region::parse(url, secret)).transpose()?;
    Ok(())
}

fn database(args: &ServeArgs) -> Result<(), ServeError> {
    let parsed = args.place.database.as_deref().map(Database::parse).transpose();
    parsed.map(|_| ()).map_err(ServeError::InvalidDatabase)
}

/// Who has settings elsewhere can do without a place for data.
fn data(args: &ServeArgs) -> Result<(), ServeError> {
    if args.place.database.is_none() && args.globe.is_none() {
        place::data_dir(args.place.data.as_deref())?;
    }
    Ok(())
}
