use duetime_derive::Job;

#[derive(Job)]
#[job(kind = "a", unique = "order, items")]
struct Missing {
    order: u64,
    item: u64,
}

#[derive(Job)]
#[job(kind = "a", tags = "order")]
struct Unnamed(u64);

#[derive(Job)]
#[job(kind = "a", unique = "order")]
enum Enum {
    Order { order: u64 },
}

#[derive(Job)]
#[job(kind = "a", unique = "order")]
union Union {
    order: u64,
}

fn main() {}
