<?php
declare(strict_types=1);

/** Refunds, at a payment service. */
final class Refund
{
    /** The service has refused, and would refuse again. */
    public const FINAL = 10000;

    /** Grants a refund; may be called more than once for an order, so the service must know the order's number. */
    public function grant(array $data): array
    {
        $api = getenv('REFUND_API') ?: throw new RuntimeException('expected the address of the payment service in REFUND_API');
        $context = stream_context_create(['http' => [
            'method' => 'POST',
            'header' => "Content-Type: application/json\r\nIdempotency-Key: refund-{$data['order']}\r\n",
            'content' => json_encode($data, JSON_THROW_ON_ERROR),
            'ignore_errors' => true,
            'timeout' => 10,
        ]]);
        $text = @file_get_contents($api, false, $context);
        if ($text === false) {
            throw new RuntimeException('the payment service does not answer');
        }
        $status = (int) explode(' ', $http_response_header[0])[1];
        if ($status === 422) {
            throw new RuntimeException("refused: $text", self::FINAL);
        }
        if ($status >= 300) {
            throw new RuntimeException("the payment service answered $status");
        }
        return ['order' => $data['order'], 'refund' => $text];
    }
}
