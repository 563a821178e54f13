#include "identity/key.h"

#include <openssl/pem.h>
#include <sys/stat.h>

#include "identity/identity_test_util.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

std::string pem_of(EVP_PKEY* key, const char* password = nullptr) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, password == nullptr ? nullptr : EVP_aes_128_cbc(),
                                password, password == nullptr ? 0 : 4, nullptr, nullptr);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

TEST(PrivateKey, IsTheSameAfterAFile) {
  const TemporaryFolder folder;
  const PrivateKey key = PrivateKey::make();
  ASSERT_TRUE(key.save(folder.file("key")).ok());
  struct stat info {};
  ASSERT_EQ(::stat(folder.file("key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto loaded = PrivateKey::load(folder.file("key"));
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.error());
  EXPECT_EQ(loaded->public_fingerprint(), key.public_fingerprint());
  EXPECT_EQ(loaded->pem(), key.pem());
  EXPECT_NE(PrivateKey::make().public_fingerprint(), key.public_fingerprint());
}

TEST(PrivateKey, IsMadeOnceAndLoadedFromThenOn) {
  const TemporaryFolder folder;
  const auto made = PrivateKey::load_or_make(folder.file("key"));
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  const auto loaded = PrivateKey::load_or_make(folder.file("key"));
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.error());
  EXPECT_EQ(loaded->public_fingerprint(), made->public_fingerprint());
  std::ofstream(folder.file("key")) << "no key";
  EXPECT_FALSE(PrivateKey::load_or_make(folder.file("key")).ok())
      << "a damaged key is not replaced";
}

TEST(PrivateKey, AFileThatOthersCanReadIsRefused) {
  const TemporaryFolder folder;
  ASSERT_TRUE(PrivateKey::make().save(folder.file("key")).ok());
  ASSERT_EQ(::chmod(folder.file("key").c_str(), 0644), 0);
  const auto refused = PrivateKey::load(folder.file("key"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_EQ(refused.error().field, folder.file("key"));
  EXPECT_NE(refused.error().remedy.find("chmod 600"), std::string::npos);
}

TEST(PrivateKey, AnErrorOfAFileNamesTheFile) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("key")) << "no key";
  ASSERT_EQ(::chmod(folder.file("key").c_str(), 0600), 0);
  EXPECT_EQ(PrivateKey::load(folder.file("key")).error().field, folder.file("key"));
}

TEST(PrivateKey, OnlyP256IsOurs) {
  const PublicKeyPtr p384(EVP_EC_gen("secp384r1")), rsa(EVP_RSA_gen(2048)), weak(EVP_RSA_gen(1024));
  const PublicKeyPtr edwards(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  for (EVP_PKEY* key : {p384.get(), rsa.get(), weak.get(), edwards.get()}) {
    const auto refused = PrivateKey::parse(pem_of(key));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kIncompatible);
  }
  EXPECT_TRUE(PrivateKey::parse_given(pem_of(p384.get())).ok());
  EXPECT_TRUE(PrivateKey::parse_given(pem_of(rsa.get())).ok());
  EXPECT_FALSE(PrivateKey::parse_given(pem_of(weak.get())).ok());
  EXPECT_FALSE(PrivateKey::parse_given(pem_of(edwards.get())).ok());
}

TEST(PrivateKey, AskForNoPassword) {
  const PrivateKey key = PrivateKey::make();
  const auto refused = PrivateKey::parse(pem_of(key.get(), "abcd"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("password"), std::string::npos);
}

TEST(PrivateKey, RefusesWhatIsNone) {
  const std::string pem = PrivateKey::make().pem();
  for (const std::string& text : {std::string(), std::string("x"), pem.substr(0, pem.size() / 2),
                                  std::string("-----BEGIN PRIVATE KEY-----\nAAAA\n"),
                                  std::string(kHashDigits, '\0'), std::string(1 << 20, 'A')}) {
    const auto refused = PrivateKey::parse(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(ERR_peek_error(), 0u);  // nothing is left for somebody else's TLS to find
}

TEST(PrivateKey, WhatItSignsIsItsOwn) {
  const PrivateKey key = PrivateKey::make(), other = PrivateKey::make();
  const std::string signature = key.sign("bytes");
  EXPECT_LE(signature.size(), kSignatureMax);
  EXPECT_TRUE(has_signed(key.get(), "bytes", signature));
  EXPECT_FALSE(has_signed(key.get(), "byte", signature));
  EXPECT_FALSE(has_signed(other.get(), "bytes", signature));
  EXPECT_FALSE(has_signed(key.get(), "bytes", ""));
  EXPECT_FALSE(has_signed(key.get(), "bytes", std::string(70, '\0')));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace shoal::identity
