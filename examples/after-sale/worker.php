<?php
declare(strict_types=1);
require __DIR__ . '/Duetime.php';
require __DIR__ . '/Refund.php';

// Runs due jobs without end; with --once it runs what is due now and exits.

// What a payload may name. Anything else is refused for good: whoever can push must not be able to call anything.
const ALLOWED = [Refund::class => ['grant']];
const FINAL_CODE = 10000;

$duetime = Duetime::ofEnvironment();
$once = in_array('--once', $argv, true);
$stopping = false;
if (function_exists('pcntl_signal')) {
    pcntl_async_signals(true);
    foreach ([SIGTERM, SIGINT] as $signal) {
        pcntl_signal($signal, function () use (&$stopping) { $stopping = true; });
    }
}
while (!$stopping) {
    try {
        $leases = $duetime->reserve('after-sale', 1, $once ? '0s' : '20s');
    } catch (DuetimeError $error) {
        fwrite(STDERR, $error->getMessage() . "\n");
        sleep(1);
        continue;
    }
    if ($once && $leases === []) {
        break;
    }
    foreach ($leases as $lease) {
        run($duetime, $lease);
    }
}

/** Runs one job, and says what came of it. */
function run(Duetime $duetime, array $lease): void
{
    $receipt = $lease['receipt'];
    try {
        try {
            $duetime->complete($receipt, dispatch($lease['payload']));
            echo "{$lease['id']} done\n";
        } catch (DuetimeError $error) {
            throw $error;
        } catch (Throwable $error) {
            $duetime->fail($receipt, $error->getMessage(), $error->getCode() === FINAL_CODE);
            echo "{$lease['id']} failed: {$error->getMessage()}\n";
        }
    } catch (DuetimeError $error) {
        // The lease is over, or nobody answers: the job comes back when its lease ends.
        fwrite(STDERR, "$receipt: {$error->getMessage()}\n");
    }
}

/** Calls what the payload names, where that is allowed. */
function dispatch(mixed $payload): mixed
{
    ['class' => $class, 'method' => $method, 'data' => $data] = $payload + ['class' => '', 'method' => '', 'data' => []];
    if (!in_array($method, ALLOWED[$class] ?? [], true)) {
        throw new RuntimeException("$class::$method is not allowed here", FINAL_CODE);
    }
    return (new $class())->$method($data);
}
