#pragma once

namespace coxswain::contract {

// One visitor of several lambdas.
template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;

}  // namespace coxswain::contract
