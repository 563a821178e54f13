#include "identity/request.h"

#include <openssl/pem.h>

#include "identity/certificate.h"
#include "identity/identity_test_util.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

// A request that asks to be the coordinator.
std::string ambitious_request(EVP_PKEY* key) {
  const RequestPtr request(X509_REQ_new());
  X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("coordinator"), -1, -1, 0);
  STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
  sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name,
                                                         "URI:shoal://reef/coordinator"));
  sk_X509_EXTENSION_push(extensions,
                         X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "CA:TRUE"));
  X509_REQ_add_extensions(request.get(), extensions);
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  X509_REQ_set_pubkey(request.get(), key);
  X509_REQ_sign(request.get(), key, EVP_sha256());
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(bio.get(), request.get());
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

// The same request in DER with its n-th byte from the end changed, as PEM.
std::string changed(const std::string& pem, std::size_t from_end) {
  const BioPtr in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* der = nullptr;
  long size = 0;
  PEM_read_bio(in.get(), &name, &header, &der, &size);
  der[static_cast<std::size_t>(size) - from_end] ^= 1;
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio(out.get(), name, header, der, size);
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(der);
  char* text = nullptr;
  const auto length = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(length));
}

TEST(SigningRequest, CarriesTheKeyOnly) {
  const PrivateKey key = PrivateKey::make();
  const auto request = SigningRequest::parse(make_request(key));
  ASSERT_TRUE(request.ok()) << to_string(request.error());
  EXPECT_EQ(request->key_fingerprint(), key.public_fingerprint());
  EXPECT_LT(make_request(key).size(), 500u);
}

TEST(SigningRequest, WhatItAsksForIsPassedOver) {
  const Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  const auto request = SigningRequest::parse(ambitious_request(key.get()));
  ASSERT_TRUE(request.ok()) << to_string(request.error());
  const Certificate issued = *cluster.ca.issue_agent(*request, AgentId(7), kNoon);
  EXPECT_EQ(to_string(*issued.name()), "shoal://reef/agent/agt_7");
  EXPECT_FALSE(issued.is_authority());
  char subject[128] = {};
  X509_NAME_oneline(X509_get_subject_name(issued.get()), subject, sizeof subject);
  EXPECT_STREQ(subject, "/CN=agt_7");
}

TEST(SigningRequest, ASignatureOfAnotherKeyIsRefused) {
  const std::string pem = make_request(PrivateKey::make());
  for (const std::size_t from_end : {1, 20, 60}) {
    const auto refused = SigningRequest::parse(changed(pem, from_end));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "csr");
  }
}

TEST(SigningRequest, OtherKeysAreRefused) {
  const PublicKeyPtr rsa(EVP_RSA_gen(2048)), p384(EVP_EC_gen("secp384r1"));
  for (EVP_PKEY* key : {rsa.get(), p384.get()}) {
    const auto refused = SigningRequest::parse(ambitious_request(key));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kIncompatible);
    EXPECT_EQ(refused.error().field, "csr");
  }
}

TEST(SigningRequest, RefusesWhatIsNone) {
  const std::string pem = make_request(PrivateKey::make());
  for (const std::string& text :
       {std::string(), std::string("csr"), pem.substr(0, 200), PrivateKey::make().pem(),
        Cluster().agent().pem(), pem + std::string(kRequestMax, 'x')}) {
    const auto refused = SigningRequest::parse(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "csr");
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace shoal::identity
