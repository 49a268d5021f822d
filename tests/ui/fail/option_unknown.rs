use diesel_jobs::job;

#[job(quue = "mail")]
fn near_miss() {}

#[job(color = "red")]
fn nothing_like_it() {}

// Words of other job systems.
#[job(max_retries = 3)]
fn of_celery() {}

#[job(sidekiq_options(queue = "mail"))]
fn a_list_of_nothing_known() {}

#[job(rate_limit(limit = 5))]
fn a_list() {}

#[job(delay = "5m")]
fn set_at_the_enqueue() {}

#[job(queue("mail"))]
fn no_list() {}

#[job(queue = "mail", queue = "post")]
fn twice() {}

#[job(queue)]
fn no_value() {}

#[job(queue = )]
fn nothing_after_the_sign() {}

#[job("mail")]
fn no_name() {}

#[job(queue = "mail" priority = 3)]
fn no_comma() {}

// Two errors in one place are reported together, and the uses below add no error.
#[job(retries = 3, timeout = 30)]
fn two_slips(number: i64) {
    let _ = number;
}

fn main() {
    use diesel_jobs::Job;

    near_miss();
    let _ = NearMiss.priority(1);
    let _ = TwoSlips { number: 3 }.priority(1);
    let _ = TwoSlips::new(3).priority(1);
    let _ = diesel_jobs::worker::Registry::new().with::<Twice>();
}
