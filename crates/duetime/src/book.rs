//! Compiles the Rust examples of the book, and runs them if possible: rustdoc treats each page as the documentation of a
//! module here.

macro_rules! pages {
    ($($(#[$condition:meta])* $name:ident: $path:literal,)*) => {
        $(
            $(#[$condition])*
            #[doc = include_str!(concat!("../../../docs/", $path))]
            struct $name;
        )*
    };
}

pages! {
    Embedded: "guides/embedded.md",
    FromApalis: "guides/from-apalis.md",
    FromTokioCronScheduler: "guides/from-tokio-cron-scheduler.md",
    GettingStarted: "getting-started.md",
    Locks: "guides/locks.md",
    RecurringJobs: "guides/recurring-jobs.md",
    Chains: "guides/chains.md",
    Debounce: "guides/debounce.md",
    Service: "guides/service.md",
    SqlTransaction: "guides/sql-transaction.md",
    #[cfg(feature = "testing")]
    Testing: "guides/testing.md",
    UnpaidOrder: "guides/unpaid-order.md",
    Workers: "guides/workers.md",
}
