<?php

declare(strict_types=1);

namespace Duetime\Http;

use Duetime\Error\Unavailable;
use Psr\Http\Client\{ClientExceptionInterface, ClientInterface};
use Psr\Http\Message\{RequestFactoryInterface, StreamFactoryInterface};

/**
 * Your own HTTP client, by PSR-18. Set its time-out yourself, longer than the waits of a worker (20 s) if it serves one: PSR-18
 * has no way to say it. Events are always read with ext-curl.
 */
final class Psr18Http implements Http
{
    public function __construct(
        private readonly ClientInterface $client,
        private readonly RequestFactoryInterface $requests,
        private readonly StreamFactoryInterface $streams,
    ) {
    }

    public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response
    {
        $request = $this->requests->createRequest($method, $url);
        foreach ($headers as $header) {
            [$name, $value] = explode(':', $header, 2) + [1 => ''];
            $request = $request->withHeader($name, trim($value));
        }
        if ($body !== null) {
            $request = $request->withBody($this->streams->createStream($body));
        }
        try {
            $answer = $this->client->sendRequest($request);
            $text = (string) $answer->getBody();
        } catch (ClientExceptionInterface | \RuntimeException $error) {
            throw new Unavailable('unreachable', 0, "$url: {$error->getMessage()}");
        }
        $received = [];
        foreach ($answer->getHeaders() as $name => $values) {
            $received[strtolower((string) $name)] = implode(', ', $values);
        }
        return new Response($answer->getStatusCode(), $received, $text);
    }
}
