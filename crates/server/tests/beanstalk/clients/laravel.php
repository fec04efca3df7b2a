<?php
// What Laravel's queue worker needs around it.
error_reporting(E_ALL & ~E_DEPRECATED);
require '/usr/share/php/Illuminate/Queue/autoload.php';

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher;

final class NoEvents implements Dispatcher
{
    public array $seen = [];

    public function listen($events, $listener = null) {}

    public function hasListeners($eventName)
    {
        return false;
    }

    public function subscribe($subscriber) {}

    public function until($event, $payload = []) {}

    public function dispatch($event, $payload = [], $halt = false)
    {
        $this->seen[] = is_object($event) ? (new ReflectionClass($event))->getShortName() : $event;
    }

    public function push($event, $payload = []) {}

    public function flush($event) {}

    public function forget($event) {}

    public function forgetPushed() {}
}

final class Quiet implements ExceptionHandler
{
    public function report(Throwable $e)
    {
        if ($e->getMessage() !== 'it always fails') {
            fwrite(STDERR, $e . "\n");
            exit(1);
        }
    }

    public function shouldReport(Throwable $e)
    {
        return true;
    }

    public function render($request, Throwable $e) {}

    public function renderForConsole($output, Throwable $e) {}
}
