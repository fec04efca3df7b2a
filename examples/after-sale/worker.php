<?php
declare(strict_types=1);
require __DIR__ . '/Duetime.php';
require __DIR__ . '/Refund.php';

// Runs due jobs until stopped; with --once it runs the jobs that are due now, and exits.

// The calls that a payload may name. Anything else fails for good: pushing must not allow arbitrary calls.
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

/** Runs one job, and prints the outcome. */
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
        // The lease has expired, or the server does not answer: the job comes back when its lease ends.
        fwrite(STDERR, "$receipt: {$error->getMessage()}\n");
    }
}

/** Calls the method that the payload names, if it is allowed. */
function dispatch(mixed $payload): mixed
{
    ['class' => $class, 'method' => $method, 'data' => $data] = $payload + ['class' => '', 'method' => '', 'data' => []];
    if (!in_array($method, ALLOWED[$class] ?? [], true)) {
        throw new RuntimeException("$class::$method is not allowed here", FINAL_CODE);
    }
    return (new $class())->$method($data);
}
