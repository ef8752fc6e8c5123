// NOT COMPILED HERE: written after the documentation of Microsoft.Extensions.Http.Resilience
// (8 to 10), which is Polly 8 for HttpClient. The values are the standard handler's defaults.
using Microsoft.Extensions.DependencyInjection;
using Polly;

public sealed class ShopClient(HttpClient http)
{
    public Task<string> Price(string item) => http.GetStringAsync($"/price/{item}");

    public async Task Charge(string order, string key)
    {
        using var request = new HttpRequestMessage(HttpMethod.Post, $"/charges/{order}")
        {
            Content = new StringContent("5 EUR"),
        };
        request.Headers.Add("Idempotency-Key", key);
        using var response = await http.SendAsync(request);
        response.EnsureSuccessStatusCode();
    }
}

public static class Startup
{
    public static void AddShop(IServiceCollection services) => services
        .AddHttpClient<ShopClient>(http => http.BaseAddress = new Uri("http://shop"))
        .AddStandardResilienceHandler(options =>
        {
            options.RateLimiter.DefaultRateLimiterOptions.PermitLimit = 1000;
            options.TotalRequestTimeout.Timeout = TimeSpan.FromSeconds(30);
            options.Retry.MaxRetryAttempts = 3;
            options.Retry.Delay = TimeSpan.FromSeconds(2);
            options.Retry.BackoffType = DelayBackoffType.Exponential;
            options.Retry.UseJitter = true;
            options.CircuitBreaker.FailureRatio = 0.1;
            options.CircuitBreaker.MinimumThroughput = 100;
            options.CircuitBreaker.SamplingDuration = TimeSpan.FromSeconds(30);
            options.CircuitBreaker.BreakDuration = TimeSpan.FromSeconds(5);
            options.AttemptTimeout.Timeout = TimeSpan.FromSeconds(10);
        });
}
