use duetime_derive::Job;

#[derive(Job)]
struct NoKind;

#[derive(Job)]
#[job(kind = "a", colour = "b")]
struct Unknown;

#[derive(Job)]
#[job(kind = "a", queue = "b", kind = "c")]
struct Twice;

#[derive(Job)]
#[job(kind)]
struct NoValue;

#[derive(Job)]
#[job(kind = 5)]
struct NoText;

#[derive(Job)]
#[job(kind = "")]
struct EmptyText;

#[derive(Job)]
#[job(kind = "a", max_attempts = 5000000000)]
struct TooMany;

#[derive(Job)]
#[job(kind = "a", timeout = "5")]
struct NoUnit;

#[derive(Job)]
#[job(kind = "a", retry = "5s, soon")]
struct NoWait;

#[derive(Job)]
#[job(kind = "a", jitter = 1.5)]
struct TooLong;

#[derive(Job)]
#[job(kind = "a", when_exhausted = "move:")]
struct NoQueue;

#[derive(Job)]
#[job = "a"]
struct NoList;

fn main() {}
