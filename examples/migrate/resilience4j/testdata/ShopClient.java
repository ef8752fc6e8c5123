// NOT COMPILED HERE: written after resilience4j's documentation (2.x, Spring Boot 3).
package shop;

import io.github.resilience4j.bulkhead.annotation.Bulkhead;
import io.github.resilience4j.circuitbreaker.annotation.CircuitBreaker;
import io.github.resilience4j.retry.annotation.Retry;
import org.springframework.stereotype.Service;
import org.springframework.web.client.RestClient;

@Service
public class ShopClient {
    private final RestClient http;

    public ShopClient(RestClient.Builder http) {
        this.http = http.baseUrl("http://shop").build();
    }

    @Retry(name = "shop")
    @CircuitBreaker(name = "shop")
    @Bulkhead(name = "shop")
    public String price(String item) {
        return http.get().uri("/price/{item}", item).retrieve().body(String.class);
    }

    @Retry(name = "shop")
    @CircuitBreaker(name = "shop")
    @Bulkhead(name = "shop")
    public void charge(String order, String key) {
        http.post().uri("/charges/{order}", order).header("Idempotency-Key", key)
                .body("5 EUR").retrieve().toBodilessEntity();
    }
}
