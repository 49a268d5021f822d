use diesel::SqliteConnection;
use diesel_jobs::job;

#[job]
fn greet(name: String) {
    let _ = name;
}

fn the_trait_of_enqueue(conn: &mut SqliteConnection) {
    let _ = Greet::new("you").enqueue(conn);
}

fn the_trait_of_the_builder() {
    let _ = Greet::new("you").priority(3);
}

fn a_trait_that_the_prelude_has_without_a_name(ctx: &diesel_jobs::JobContext, conn: &mut SqliteConnection) {
    let _ = ctx.complete_in(conn);
}

fn another_one() {
    let _ = std::fs::read("file").fatal();
}

fn change(id: diesel_jobs::JobId, conn: &mut SqliteConnection) {
    let _ = id.cancel(conn);
}

fn main() {}
