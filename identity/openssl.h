// Owners for what OpenSSL allocates. For the sources of this folder; its public headers show
// OpenSSL's types only as pointers that they lend.
#pragma once

#include <memory>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace shoal::identity {

template <auto kFree>
struct Frees {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using Owned = std::unique_ptr<T, Frees<kFree>>;

inline void free_certificates(STACK_OF(X509) * stack) { sk_X509_free(stack); }
inline void free_usages(EXTENDED_KEY_USAGE* stack) {
  sk_ASN1_OBJECT_pop_free(stack, ASN1_OBJECT_free);
}

using BioPtr = Owned<BIO, BIO_free>;
using NumberPtr = Owned<BIGNUM, BN_free>;
using PublicKeyPtr = Owned<EVP_PKEY, EVP_PKEY_free>;
using DigestContextPtr = Owned<EVP_MD_CTX, EVP_MD_CTX_free>;
using X509Ptr = Owned<X509, X509_free>;
using RequestPtr = Owned<X509_REQ, X509_REQ_free>;
using NamesPtr = Owned<GENERAL_NAMES, GENERAL_NAMES_free>;
using BasicConstraintsPtr = Owned<BASIC_CONSTRAINTS, BASIC_CONSTRAINTS_free>;
using NameConstraintsPtr = Owned<NAME_CONSTRAINTS, NAME_CONSTRAINTS_free>;
using BitsPtr = Owned<ASN1_BIT_STRING, ASN1_BIT_STRING_free>;
using UsagesPtr = Owned<EXTENDED_KEY_USAGE, free_usages>;
using StackPtr = Owned<STACK_OF(X509), free_certificates>;  // borrows its certificates
using StorePtr = Owned<X509_STORE, X509_STORE_free>;
using StoreContextPtr = Owned<X509_STORE_CTX, X509_STORE_CTX_free>;

// OpenSSL keeps errors in a queue of the thread, where TLS of somebody else would find ours and
// take them for its own. What is added during the life of a scope goes with it.
class ErrorScope {
 public:
  ErrorScope() { ERR_set_mark(); }
  ~ErrorScope() { ERR_pop_to_mark(); }
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;
};

// A call that fails only when there is no memory, or no source of random bytes.
inline void must(int returned) { SHOAL_CHECK(returned > 0, "OpenSSL has no memory or no entropy"); }
template <typename Pointer>
Pointer must_have(Pointer pointer) {
  SHOAL_CHECK(pointer != nullptr, "OpenSSL has no memory or no entropy");
  return pointer;
}

}  // namespace shoal::identity
