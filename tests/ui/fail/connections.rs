use diesel_jobs::job;

struct Wallet;

#[job]
fn two(from: &mut Wallet, to: &mut Wallet) {
    let _ = (from, to);
}

fn main() {}
