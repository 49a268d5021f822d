use diesel_jobs::job;

struct Wallet;

#[job]
async fn of_an_async_job(wallet: &mut Wallet, cents: i64) {
    let _ = (wallet, cents);
}

#[job]
fn of_a_plain_job(wallet: &mut Wallet) {
    let _ = wallet;
}

fn main() {}
