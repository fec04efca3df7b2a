//! The Rust of the book is compiled, and run where it can be: rustdoc reads the pages as documentation of these.

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/", $path))]
            struct $name;
        )*
    };
}

pages! {
    GettingStarted: "getting-started.md",
    Locks: "guides/locks.md",
    RecurringJobs: "guides/recurring-jobs.md",
    SqlTransaction: "guides/sql-transaction.md",
    UnpaidOrder: "guides/unpaid-order.md",
    Workers: "guides/workers.md",
}
