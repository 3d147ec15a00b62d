//! Prints the OpenAPI document: what `cargo xtask openapi` writes to `docs/openapi.json`.

fn main() {
    print!("{}", tidegate_server::openapi::document());
}
