use http_body_util::BodyExt;

use super::*;

async fn ask(method: Method, path: &str, ready: bool) -> Option<(u16, String)> {
    let request = Request::builder().method(method).uri(path).body(()).unwrap();
    let reply = answer(&request, ready)?;
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    Some((status, String::from_utf8(body.to_vec()).unwrap()))
}

#[tokio::test]
async fn a_process_that_retires_is_live_and_not_ready() {
    for method in [Method::GET, Method::HEAD] {
        for (path, ready, expected) in [
            ("/livez", true, (200, r#"{"status":"live"}"#)),
            ("/livez", false, (200, r#"{"status":"live"}"#)),
            ("/readyz", true, (200, r#"{"status":"ready"}"#)),
            ("/readyz", false, (503, r#"{"status":"retiring"}"#)),
            ("/readyz?verbose", true, (200, r#"{"status":"ready"}"#)),
        ] {
            let (status, body) = ask(method.clone(), path, ready).await.unwrap();
            assert_eq!((status, body.as_str()), expected, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn health_is_asked_with_get_or_head_at_its_own_paths_only() {
    assert_eq!(ask(Method::POST, "/livez", true).await.unwrap().0, 405);
    for path in ["/", "/livez/", "/readyz2", "/v2/ratelimit.limit"] {
        assert!(ask(Method::GET, path, true).await.is_none(), "{path}");
    }
}
