//! The clients: real HTTP requests, some tens at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use programs::{Client, StatusCode};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::web::order;

/// The number of requested orders.
pub(super) const ORDERS: usize = 3_000;
pub(super) const CLIENTS: usize = 32;
/// In each group of this many orders, one payment is refused.
pub(super) const REFUSED_EVERY: usize = 5;
/// In each group of this many orders, one order is read.
const READ_EVERY: usize = 20;
const CUSTOMERS: usize = 50;

/// The number of answers of each sort that the clients got.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) placed: usize,
    pub(super) refused: usize,
    pub(super) read: usize,
}

/// Runs all clients at the same time, each with a connection of its own. They share the orders, and notify when half of
/// them have been started.
pub(super) async fn serve_clients(address: String, half_way: Arc<Notify>) -> Answers {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (address, next, half_way) = (address.clone(), next.clone(), half_way.clone());
        clients.spawn(async move { serve_client(&address, &next, &half_way).await });
    }
    clients.join_all().await.into_iter().fold(Answers::default(), |all, one| Answers {
        placed: all.placed + one.placed,
        refused: all.refused + one.refused,
        read: all.read + one.read,
    })
}

async fn serve_client(address: &str, next: &AtomicUsize, half_way: &Notify) -> Answers {
    let mut client = Client::connect(address).await;
    let mut answers = Answers::default();
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= ORDERS {
            return answers;
        }
        if n == ORDERS / 2 {
            half_way.notify_one();
        }
        let (item, cents) = (format!("item {n}"), 100 + n as i64);
        if n.is_multiple_of(REFUSED_EVERY) {
            let (status, answer) = order(&mut client, "poor@example.org", &item, cents).await;
            assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{answer}");
            answers.refused += 1;
            continue;
        }
        let (status, answer) = order(&mut client, &format!("rich-{}@example.org", n % CUSTOMERS), &item, cents).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        answers.placed += 1;
        if n % READ_EVERY == 1 {
            let (status, page) = client.get(&format!("/orders/{}", answer["id"])).await;
            assert_eq!((status, &page["item"]), (StatusCode::OK, &item.into()), "{page}");
            answers.read += 1;
        }
    }
}
