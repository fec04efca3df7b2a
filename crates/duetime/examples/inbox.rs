//! Jobs that are pushed within SQL transactions, and how soon they are handed out: `cargo run -p duetime --features
//! mysql,postgres --example inbox -- redis://127.0.0.1:6379 postgres://user:password@host/database` (or `mysql://…`)
//!
//! Each transaction takes an order and pushes a job for it. Every other one is rolled back, and leaves neither. In the end
//! the jobs are compared with the orders.

use duetime::job::Query;
use duetime::lease::ReserveRequest;
use duetime::time::Span;
use duetime::{Client, ConnectOptions, JobType, Push};
use std::error::Error;
use std::time::{Duration, Instant};

const TRANSACTIONS: u64 = 200;

#[derive(serde::Serialize, serde::Deserialize)]
struct Confirm {
    order: u64,
}

impl JobType for Confirm {
    const KIND: &'static str = "order.confirm";
    const QUEUE: &'static str = "confirmations";
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A connection of the application's own.
enum Shop {
    MySql(mysql_async::Conn),
    Postgres(tokio_postgres::Client),
}

impl Shop {
    async fn open(url: &str) -> Result<Self> {
        use mysql_async::prelude::Queryable as _;
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY)";
        if url.starts_with("mysql") {
            let mut connection = mysql_async::Conn::from_url(format!("{url}?prefer_socket=false")).await?;
            connection.query_drop(TABLE).await?;
            return Ok(Self::MySql(connection));
        }
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(TABLE).await?;
        Ok(Self::Postgres(client))
    }

    /// Takes an order and has it confirmed if it is paid; otherwise does neither.
    async fn take(&mut self, order: u64, is_paid: bool) -> Result<()> {
        use mysql_async::prelude::Queryable as _;
        let push = Push::of(&Confirm { order });
        match self {
            Self::MySql(connection) => {
                let mut transaction = connection.start_transaction(mysql_async::TxOpts::default()).await?;
                transaction.exec_drop("INSERT INTO orders (id) VALUES (?)", (order,)).await?;
                push.push_in(&mut transaction).await?;
                if is_paid { transaction.commit().await? } else { transaction.rollback().await? }
            }
            Self::Postgres(client) => {
                let mut transaction = client.transaction().await?;
                let number = i64::try_from(order)?;
                transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&number]).await?;
                push.push_in(&mut transaction).await?;
                if is_paid { transaction.commit().await? } else { transaction.rollback().await? }
            }
        }
        Ok(())
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [redis, ledger] = &arguments[..] else {
        return Err("expected: inbox redis://… postgres://… or mysql://…".into());
    };
    let options = ConnectOptions::default().ledger(ledger);
    let client = Client::connect_with(redis, options).await?;
    let mut shop = Shop::open(ledger).await?;
    let mut waits = Vec::new();
    for order in 1..=TRANSACTIONS {
        let is_paid = order % 2 == 1;
        shop.take(order, is_paid).await?;
        if !is_paid {
            continue;
        }
        let committed = Instant::now();
        let request = ReserveRequest::new(Confirm::QUEUE).limit(10).wait(Span(10_000));
        let leases = client.leases().reserve(request).await?.leases;
        waits.push(committed.elapsed());
        let [lease] = &leases[..] else { return Err(format!("expected one job, got {}", leases.len()).into()) };
        let confirm: Confirm = serde_json::from_slice(&lease.job.payload)?;
        assert_eq!(confirm.order, order, "expected the job of the order that was committed");
        client.leases().complete(lease.job.receipt(), None).await?;
    }
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let ms = |wait: Duration| wait.as_secs_f64() * 1_000.0;
    let (half, most, longest) = (ms(at(50)), ms(at(99)), ms(at(100)));
    println!(
        "from the commit to the reservation: 50 % within {half:.1} ms, 99 % within {most:.1} ms, all within {longest:.1} ms"
    );
    let query = Query::default().queue(Confirm::QUEUE);
    let jobs = client.jobs().page(&query, None, 1_000).await?.jobs.len();
    println!("{} orders were committed, and {jobs} jobs with them", waits.len());
    client.close().await?;
    if jobs == waits.len() { Ok(()) } else { Err("expected as many jobs as orders".into()) }
}
