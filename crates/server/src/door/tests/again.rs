//! What was looked at before the body came is looked at again when it is there.

use tokio::sync::oneshot;

use super::*;

/// A body that comes when it is told to.
struct Late(Option<oneshot::Receiver<Bytes>>);

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(coming) = self.0.as_mut() else { return Poll::Ready(None) };
        let Poll::Ready(came) = Pin::new(coming).poll(context) else { return Poll::Pending };
        self.0 = None;
        Poll::Ready(came.ok().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

/// Asks for a limit, and lets something happen before the body comes.
async fn asked_while(world: &World, key: &str, happens: impl Future<Output = ()>) -> (u16, String) {
    let (send, receive) = oneshot::channel();
    let request = Request::post(LIMIT_PATH).header(AUTHORIZATION, format!("Bearer {key}"));
    let answering = world.door.answer(request.body(Late(Some(receive))).unwrap());
    let sending = async {
        happens.await;
        send.send(Bytes::from(ask(10, 1).to_string())).unwrap();
    };
    let (reply, ()) = tokio::join!(answering, sending);
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, kind(&serde_json::from_slice(&body).unwrap()).to_owned())
}

#[tokio::test]
async fn a_key_that_ends_while_the_body_comes_has_ended() {
    let world = World::new().await;
    let all = Action::everything();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    world.key("disabled", &all).await;
    world.key("revoked", &all).await;
    world.key("good", &all).await;
    let expires = Change::AddKey {
        id: "key_short".to_owned(),
        workspace: "ws_1".to_owned(),
        name: String::new(),
        digest: ids::digest(b"short"),
        permissions: all.iter().map(|text| (*text).to_owned()).collect(),
        expires_ms: Some(MINUTE_MS + 1_000),
    };
    world.change(&expires).await;
    let id = |id: &str| format!("key_{id}");
    assert_eq!(asked_while(&world, "good", async {}).await.0, 200);
    let change = Change::SetKey { id: id("disabled"), enabled: false };
    let change = async { drop(world.change(&change).await) };
    let disabled = asked_while(&world, "disabled", change).await;
    assert_eq!(disabled, (403, "unkey/authorization/key_disabled".to_owned()));
    let change = Change::RevokeKey { id: id("revoked") };
    let change = async { drop(world.change(&change).await) };
    let revoked = asked_while(&world, "revoked", change).await;
    assert_eq!(revoked, (401, "unkey/authentication/key_not_found".to_owned()));
    let time = async { world.clock.advance(Duration::from_secs(1)) };
    let expired = asked_while(&world, "short", time).await;
    assert_eq!(expired, (401, "unkey/authentication/key_not_found".to_owned()));
    let (id, enabled, requests_per_minute) = ("ws_1".to_owned(), Some(false), None);
    let change = Change::SetWorkspace { id, enabled, requests_per_minute };
    let change = async { drop(world.change(&change).await) };
    let closed = asked_while(&world, "good", change).await;
    assert_eq!(closed, (403, "unkey/authorization/workspace_disabled".to_owned()));
    assert_eq!(world.door.limiter().subjects(), 1, "only the first was counted");
}

#[tokio::test]
async fn a_batch_of_a_deleted_namespace_alone_is_refused() {
    let world = World::new().await;
    world.data("limit", ask(10, 1)).await;
    let id = world.namespace("n").id.clone();
    world.change(&Change::DeleteNamespace { id: id.clone() }).await;
    for named in ["n", &id] {
        let mut item = ask(10, 1);
        item["namespace"] = named.into();
        let (status, body) = world.call("multiLimit", json!([item, item])).await;
        assert_eq!((status, kind(&body)), (410, "unkey/data/ratelimit_namespace_gone"));
    }
}

#[tokio::test]
async fn a_name_that_begins_like_an_id_is_a_name() {
    let world = World::new().await;
    for left in [9, 8, 7] {
        let mut item = ask(10, 1);
        item["namespace"] = "rlns_ of ours".into();
        let data = world.data("limit", item).await;
        assert_eq!((&data["remaining"], data.get("degraded")), (&json!(left), None));
    }
    assert_eq!(world.store.applied(), 1, "it was entered once");
    assert!(world.namespace("rlns_ of ours").is_listed());
}
