//! A server that shares its limits while it is loaded: with nobody, with its region (replays), and
//! with another region too (publishing and importing), which is asked about the same subjects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidegate_lab::{MariaDbServer, RedisServer};

use super::super::contestants::{KEY, Running, item, subject};
use super::super::load::{Loop, Offer};
use super::super::process::free_address;
use super::super::wire::{Post, Protocol, Written};
use super::super::{Kind, Scene};
use super::{MEASURED_S, Size, measure, migrate, start};
use crate::Failure;

/// Few enough that each is asked about dozens of times in a second, and a limit that this soon is a
/// part of: then there is something to publish all the time.
const SUBJECTS: usize = 2_000;
const LIMIT: u64 = 5_000;
/// Requests that the other region has in a second.
const ELSEWHERE: f64 = 2_000.0;
/// How long both are loaded before anything is measured: until counts are worth publishing.
const WARM_S: f64 = 8.0;

pub(super) async fn shared(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let alone = alone(scene).await?;
    let region = region(scene).await?;
    Ok(vec![alone, region, globe(scene).await?])
}

async fn alone(scene: &Scene) -> Result<Size, Failure> {
    let (process, running) = start(scene, &[]).await?;
    let offer = asking(&running)?;
    offer.run(Loop::Closed(scene.lasting(WARM_S))).await?;
    measure(scene, &process, &offer, "alone".to_owned()).await
}

async fn region(scene: &Scene) -> Result<Size, Failure> {
    let redis = RedisServer::start()?;
    let admin = free_address()?;
    let args = ["--redis", &redis.url(), "--admin-listen", &admin.to_string()];
    let (process, running) = start(scene, &args).await?;
    let offer = asking(&running)?;
    offer.run(Loop::Closed(scene.lasting(WARM_S))).await?;
    let size = measure(scene, &process, &offer, "Redis".to_owned()).await?;
    at_work(scene, admin, &["tidegate_region_replayed_total"])?;
    Ok(size)
}

async fn globe(scene: &Scene) -> Result<Size, Failure> {
    let (redis, other_redis) = (RedisServer::start()?, RedisServer::start()?);
    let database = MariaDbServer::start()?;
    migrate(scene, &database.url())?;
    let (admin, url) = (free_address()?, database.url());
    let (listen, here, there) = (admin.to_string(), redis.url(), other_redis.url());
    let args = ["--redis", &here, "--globe", &url, "--region", "here", "--admin-listen", &listen];
    let (process, running) = start(scene, &args).await?;
    let args = ["--redis", &there, "--globe", &url, "--region", "there"];
    let (_other, elsewhere) = start(scene, &args).await?;
    let (offer, elsewhere) = (asking(&running)?, asking(&elsewhere)?);
    let lasting = scene.lasting(WARM_S + 2.0 * MEASURED_S);
    let measured = async {
        offer.run(Loop::Closed(scene.lasting(WARM_S))).await?;
        measure(scene, &process, &offer, "Redis and MariaDB".to_owned()).await
    };
    let (size, asked) = tokio::join!(measured, elsewhere.run(Loop::Open(ELSEWHERE, lasting)));
    asked?.all_good("the other region")?;
    let counts = [
        "tidegate_region_replayed_total",
        "tidegate_globe_published_total",
        "tidegate_globe_imported_total",
    ];
    at_work(scene, admin, &counts)?;
    size
}

fn asking(running: &Running) -> Result<Offer, Failure> {
    let script = (0..SUBJECTS).map(|number| {
        let body = item(&subject(number), LIMIT);
        Post { path: "/v2/ratelimit.limit", key: KEY, body: &body }.write(Protocol::Http1)
    });
    let script: Arc<[Written]> = script.collect::<Result<Vec<_>, _>>()?.into();
    Ok(Offer { script, ..running.offer(Kind::Limit, Protocol::Http1, 1)? })
}

/// An error if one of these counts is nothing: then what was measured is not what it is called.
fn at_work(scene: &Scene, admin: SocketAddr, counts: &[&str]) -> Result<(), Failure> {
    let page = metrics(admin)?;
    for name in counts {
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        let value = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        let value = value.ok_or_else(|| format!("there is no metric {name}"))?;
        eprintln!("{name} {value}");
        // A moment is too short for anything to be worth publishing.
        if value == 0.0 && !scene.smoke {
            return Err(format!("{name} is 0").into());
        }
    }
    Ok(())
}

fn metrics(admin: SocketAddr) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
