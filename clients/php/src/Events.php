<?php

declare(strict_types=1);

namespace Duetime;

/** Reads server-sent events. */
final class Events
{
    public function __construct(private readonly Transport $transport)
    {
    }

    /**
     * @param string $query of `GET /v1/events`
     * @return \Generator<int, array<mixed>>
     * @throws DuetimeError if the server refuses the stream
     * @psalm-suppress InvalidReturnType it ends only with an exception
     */
    public function read(string $query): \Generator
    {
        [$last, $failures] = [null, 0];
        for (;;) {
            $headers = ['accept: text/event-stream', ...($last === null ? [] : ["last-event-id: $last"])];
            $stream = $this->transport->stream("/v1/events$query", $headers);
            $text = '';
            foreach ($stream as $part) {
                $text .= str_replace("\r\n", "\n", $part);
                while (($end = strpos($text, "\n\n")) !== false) {
                    [$event, $id] = self::event(substr($text, 0, $end));
                    $text = substr($text, $end + 2);
                    $last = $id ?? $last;
                    if ($event !== null) {
                        $failures = 0;
                        yield $event;
                    }
                }
            }
            $status = $stream->getReturn();
            if ($status >= 400 && $status < 500 && !\in_array($status, [408, 429], true)) {
                throw DuetimeError::of(new Http\Response($status, [], $text));
            }
            $this->transport->next();
            Clock::sleep(Transport::backoff(++$failures));
        }
    }

    /** @return array{array<mixed>|null, string|null} */
    private static function event(string $text): array
    {
        [$type, $data, $id] = ['message', '', null];
        foreach (explode("\n", $text) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $value = ltrim($value, ' ');
            match ($name) {
                'event' => $type = $value,
                'data' => $data .= $value,
                'id' => $id = $value,
                default => null,
            };
        }
        try {
            $fields = $data === '' ? null : Json::decode($data);
        } catch (\JsonException) {
            $fields = null;
        }
        return [\is_array($fields) ? ['type' => $type] + $fields : null, $id];
    }
}
