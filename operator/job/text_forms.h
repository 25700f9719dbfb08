#pragma once

#include <string_view>

// The forms of texts in a pod, as the API server knows them. None fits an empty text.
namespace coxswain::job {

bool is_address(std::string_view text);          // IPv4 or IPv6
bool is_search_domain(std::string_view text);    // "a.b.", "_x.y", "."
bool is_key(std::string_view text);              // of a Secret or a ConfigMap
bool is_header(std::string_view text);           // "X-Header"
bool is_sysctl(std::string_view text);           // "net.ipv4.a_b", "net/ipv4/a_b"
bool is_driver(std::string_view text);           // of CSI: "disk.example.org"
bool is_variable_prefix(std::string_view text);  // printable, without '='
bool is_iscsi_name(std::string_view text);       // "iqn.2001-04.com.example:a"
bool is_azure_disk(std::string_view text);       // where it is
bool is_profile(std::string_view text);          // no blanks around it
bool is_field(std::string_view text);            // of the pod, for a variable
bool is_field_of_file(std::string_view text);    // the same, for a file
bool is_resource_field(std::string_view text);   // "limits.cpu"
bool is_divisor(std::string_view text);          // "1Mi"
bool is_amount(std::string_view text);           // a quantity
bool is_positive(std::string_view text);         // a quantity above 0
bool is_port_name(std::string_view text);        // "http"

bool stays_below(std::string_view path);    // no ".." in it
bool is_inner_path(std::string_view path);  // relative, too
bool is_file_path(std::string_view path);   // nor does it begin with ".."
bool is_absolute(std::string_view path);

}  // namespace coxswain::job
