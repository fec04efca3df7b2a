//! The program of the guide "Look into an embedded store": a shop whose jobs can be looked at while it runs.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use duetime::prelude::{Client, Duration, Job};
use duetime::status::METRICS_MEDIA_TYPE;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders")]
struct CancelOrder {
    order: u64,
}

/// What the shop answers with if a call of the library fails.
struct Failed(duetime::Error);

impl IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        (StatusCode::SERVICE_UNAVAILABLE, self.0.to_string()).into_response()
    }
}

impl From<duetime::Error> for Failed {
    fn from(error: duetime::Error) -> Self {
        Self(error)
    }
}

async fn place_order(State(client): State<Client>, Path(order): Path<u64>) -> Result<String, Failed> {
    let pushed = client.push(CancelOrder { order }).after(Duration::from_secs(30 * 60)).await?;
    Ok(pushed.id.to_string())
}

async fn metrics(State(client): State<Client>) -> Result<impl IntoResponse, Failed> {
    Ok(([(CONTENT_TYPE, METRICS_MEDIA_TYPE)], client.metrics_text().await?))
}

pub(crate) fn app(client: &Client) -> duetime::Result<axum::Router> {
    Ok(axum::Router::new()
        .route("/orders/{order}", post(place_order))
        .route("/metrics", get(metrics))
        .with_state(client.clone())
        .nest_service("/duetime", duetime_server::router(client)?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::open("jobs.db").await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app(&client)?).await?;
    Ok(())
}
