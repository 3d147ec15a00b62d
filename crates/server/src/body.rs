//! The bytes of a body: no more than the cap, no later than the deadline.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::EXPECT;
use tokio::time::timeout;

use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// Largest body. A batch of 100 items with the longest strings takes less than half of it.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How much of a larger body is still read, and thrown away, before it is refused. A client that
/// writes all before it reads would otherwise see a reset connection instead of the refusal.
const DISCARDED_BYTES_MAX: usize = 16 << 20;

/// How long a body may take. Long for the hundred bytes it usually has, even over a bad line;
/// short enough that whoever dribbles bytes holds a connection for seconds only.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

const _: () = assert!(DISCARDED_BYTES_MAX > BODY_BYTES_MAX);

/// Reads all of `body`.
pub(crate) async fn read<B>(mut body: B, headers: &HeaderMap) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let announced = body.size_hint().lower();
    if announced > wide(BODY_BYTES_MAX) {
        // Who asks first has not sent anything, and is told not to.
        if !headers.contains_key(EXPECT) && announced <= wide(DISCARDED_BYTES_MAX) {
            discard(&mut body).await;
        }
        return Err(Problem::body_too_large());
    }
    let collected = Limited::new(&mut body, BODY_BYTES_MAX).collect();
    match timeout(BODY_DEADLINE, collected).await {
        Err(_) => Err(Problem::body_too_late()),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard(&mut body).await;
            Err(Problem::body_too_large())
        }
        Ok(Err(_)) => Err(Problem::body_unreadable()),
    }
}

/// Reads on without keeping anything, up to a bound and for a time. What goes wrong here changes
/// nothing: the body is refused anyway.
async fn discard<B: Body<Data = Bytes> + Unpin>(body: &mut B) {
    let mut left = DISCARDED_BYTES_MAX;
    let discarded = async {
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = timeout(BODY_DEADLINE, discarded).await;
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
