#pragma once

#include <cpprest/streams.h>

#include <memory>
#include <string>

#include "operator/kube/exchange.h"

// The bodies of requests and answers as cpprestsdk's stream buffers. Part of http_transport.cc.
namespace coxswain::kube {

using BodyBuffer = Concurrency::streams::streambuf<std::uint8_t>;

// Read once and never rewound: the library would repeat a request by itself otherwise, when a
// kept-alive connection breaks, even one that the server has carried out.
BodyBuffer make_body_source(std::string body);

// What is written goes to `exchange`, and waits while the caller there is behind.
BodyBuffer make_body_sink(std::shared_ptr<Exchange> exchange);

}  // namespace coxswain::kube
