use duetime::{assert_pushed, prelude::*, testing};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order.cancel", queue = "orders", retry = "1m,10m")]
struct CancelOrder {
    order: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "mail.cancelled", queue = "mail")]
struct MailCancelled {
    order: u64,
}

struct App {
    client: Client,
    is_shop_open: bool,
}

async fn place_order(client: &Client, order: u64) -> duetime::Result<()> {
    client.push(CancelOrder { order }).key(format!("order-{order}")).after(Duration::from_secs(30 * 60)).await?;
    Ok(())
}

async fn cancel(job: CancelOrder, State(app): State<Arc<App>>, Attempt(attempt): Attempt) -> Result<String, JobError> {
    if !app.is_shop_open {
        return Err(if attempt < 3 { JobError::new("the shop is closed") } else { JobError::fatal("still closed") });
    }
    app.client.push(MailCancelled { order: job.order }).await?;
    Ok(format!("order {} is cancelled", job.order))
}

async fn mail(_: MailCancelled) -> Result<(), JobError> {
    Ok(())
}

fn worker(client: &Client, is_shop_open: bool) -> Worker<Arc<App>> {
    Worker::new(client).state(Arc::new(App { client: client.clone(), is_shop_open })).handle(cancel).handle(mail)
}

#[tokio::test]
async fn an_unpaid_order_is_cancelled_after_half_an_hour() -> duetime::Result<()> {
    let (client, clock) = testing::client().await;
    place_order(&client, 7).await?;
    assert_pushed!(client, CancelOrder { order: 7 }, after = 30m);
    assert_eq!(worker(&client, true).drain().await?.succeeded, 0);

    clock.advance(Duration::from_secs(30 * 60)).await;
    assert_eq!(worker(&client, true).drain().await?.succeeded, 2); // the mail, too
    assert_pushed!(client, MailCancelled { order: 7 }, after = 0s);
    Ok(())
}

#[tokio::test]
async fn a_closed_shop_is_asked_again() -> duetime::Result<()> {
    let (client, clock) = testing::client().await;
    let id = client.push(CancelOrder { order: 7 }).await?.id;
    let (closed, open) = (worker(&client, false), worker(&client, true));
    let job = closed.run_one().await?.expect("a job is due");
    assert_eq!(&*job.errors[0].message, "the shop is closed");
    assert!(open.run_one().await?.is_none());

    clock.advance(Duration::from_secs(66)).await; // a minute, and up to a tenth more
    open.run_one().await?.expect("the job is due again");
    assert_eq!(client.jobs().get(id).await?.result_as::<String>()?, "order 7 is cancelled");
    Ok(())
}

#[tokio::test]
async fn the_third_attempt_is_the_last() {
    let (client, _clock) = testing::client().await;
    let app = Arc::new(App { client: client.clone(), is_shop_open: false });
    let failed = testing::attempt(&client, CancelOrder { order: 7 }).number(3).state(app).run(cancel).await;
    assert!(failed.unwrap_err().is_final());
}
