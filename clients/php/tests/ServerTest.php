<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\RunningJob;
use Duetime\Testing\Server;
use Duetime\Worker;
use PHPUnit\Framework\TestCase;

/** The server for tests of programs. */
final class ServerTest extends TestCase
{
    public function testItsClockIsMoved(): void
    {
        $server = Server::start();
        $client = $server->client();
        $pushed = $client->push('clock', 7, delay: '30d');
        $worker = new Worker($client, 'clock', logger: new Quiet());
        $worker->handle('default', static fn (RunningJob $job): int => $job->payload + 1);
        self::assertSame(0, $worker->drain());
        $server->advance('30d');
        self::assertSame(1, $worker->drain());
        self::assertSame(8, $client->wait($pushed->id, timeout: 5)->result);
    }

    public function testAProgramThatIsNotThereIsNamed(): void
    {
        $this->expectExceptionMessageMatches('#`/nowhere/duetime serve`.*DUETIME_BIN#s');
        Server::start('/nowhere/duetime');
    }
}
