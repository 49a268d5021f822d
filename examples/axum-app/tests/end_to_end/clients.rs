//! The clients: real HTTP requests, some tens at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::Client;

/// The number of requested orders.
pub(super) const ORDERS: usize = 3_000;
pub(super) const CLIENTS: usize = 32;
/// In every so many orders, one payment is refused, and one order is read.
pub(super) const REFUSED_EVERY: usize = 5;
const LOOKED_AT_EVERY: usize = 20;
const CUSTOMERS: usize = 50;

/// The number of answers of each sort that the clients got.
#[derive(Default)]
pub(super) struct Told {
    pub(super) placed: usize,
    pub(super) refused: usize,
    pub(super) looked_at: usize,
}

/// Runs all clients at the same time, each with a connection of its own. They share the orders, and notify when half of
/// them have been started.
pub(super) async fn serve_clients(address: String, half_way: Arc<Notify>) -> Told {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (address, next, half_way) = (address.clone(), next.clone(), half_way.clone());
        clients.spawn(async move { serve_client(&address, &next, &half_way).await });
    }
    clients.join_all().await.into_iter().fold(Told::default(), |all, one| Told {
        placed: all.placed + one.placed,
        refused: all.refused + one.refused,
        looked_at: all.looked_at + one.looked_at,
    })
}

async fn serve_client(address: &str, next: &AtomicUsize, half_way: &Notify) -> Told {
    let mut client = Client::connect(address).await;
    let mut told = Told::default();
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= ORDERS {
            return told;
        }
        if n == ORDERS / 2 {
            half_way.notify_one();
        }
        let (item, cents) = (format!("item {n}"), 100 + n as i64);
        if n.is_multiple_of(REFUSED_EVERY) {
            let (status, answer) = client.order("poor@example.org", &item, cents).await;
            assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{answer}");
            told.refused += 1;
            continue;
        }
        let (status, answer) = client.order(&format!("rich-{}@example.org", n % CUSTOMERS), &item, cents).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        told.placed += 1;
        if n % LOOKED_AT_EVERY == 1 {
            let (status, order) = client.get(&format!("/orders/{}", answer["id"])).await;
            assert_eq!((status, &order["item"]), (StatusCode::OK, &item.into()), "{order}");
            told.looked_at += 1;
        }
    }
}
