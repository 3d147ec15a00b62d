use std::net::SocketAddr;
use std::time::Duration;

use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::DEADLINE;

/// One connection that speaks HTTP/2.
pub(crate) struct Http2 {
    pub(crate) requests: SendRequest<Bytes>,
    ended: JoinHandle<Result<(), h2::Error>>,
}

impl Http2 {
    /// Without TLS, knowing that the server speaks it.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over<T>(stream: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let greeted = timeout(DEADLINE, Builder::new().handshake(stream)).await.unwrap();
        let (requests, connection) = greeted.unwrap();
        Self { requests, ended: tokio::spawn(connection) }
    }

    /// Begins a request whose body is still to come.
    pub(crate) async fn begin(&self, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post(format!("http://x{path}"));
        let request =
            request.header("authorization", format!("Bearer {}", super::KEY)).body(()).unwrap();
        let ready = timeout(DEADLINE, self.requests.clone().ready()).await.unwrap();
        ready.unwrap().send_request(request, false).unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (reply, mut sender) = self.begin(path).await;
        sender.send_data(Bytes::from(body.to_string()), true).unwrap();
        received(reply).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> (u16, Value) {
        let request = Request::get(format!("http://x{path}")).body(()).unwrap();
        received(self.requests.send_request(request, true).unwrap().0).await
    }

    /// Waits for the server to end the connection. Says how.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        timeout(DEADLINE, self.ended).await.unwrap().unwrap()
    }

    /// Whether it does not end by itself for that long.
    pub(crate) async fn goes_on_for(&mut self, time: Duration) -> bool {
        timeout(time, &mut self.ended).await.is_err()
    }
}

/// The reply, whole.
pub(crate) async fn received(reply: ResponseFuture) -> (u16, Value) {
    let reply = timeout(DEADLINE, reply).await.unwrap().unwrap();
    let status = reply.status().as_u16();
    let bytes = timeout(DEADLINE, collect(reply.into_body())).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

async fn collect(mut body: RecvStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes.unwrap();
        body.flow_control().release_capacity(bytes.len()).unwrap();
        all.extend_from_slice(&bytes);
    }
    all
}
