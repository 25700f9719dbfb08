#pragma once

namespace coxswain {

// Lets this process and those that it starts have as many files open at once as `ranks` ranks here
// take, as far as the machine's hard limit allows. Throws Error (65) that names the limit where
// that is too low: a launcher without descriptors fails without a reason, or waits for ever.
void allow_open_files(int ranks);

}  // namespace coxswain
