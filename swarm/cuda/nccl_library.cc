// See nccl_library.h.
#include "swarm/cuda/nccl_library.h"

#include <cstdlib>
#include <cstring>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace shoal::swarm {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(CommunicatorId));

constexpr cudaStream_t kDefaultStream = nullptr;

Error nccl_error(ncclResult_t result, ncclComm_t communicator) {
  std::string text = std::string("NCCL error: ") + ncclGetErrorString(result);
  const char* last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') text += std::string(", ") + last;
  return {Code::kInternal, text, "", "look at the devices with nvidia-smi, or set NCCL_DEBUG=INFO"};
}

Status told(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return Error{Code::kInternal, std::string("CUDA error: ") + cudaGetErrorString(error), "",
               "look at the device with nvidia-smi"};
}

bool begun(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int device, ncclComm_t communicator)
      : device_(device), communicator_(communicator) {}
  ~NcclCommunicator() override {
    cudaSetDevice(device_);
    ncclCommAbort(communicator_);
  }

  GroupProgress poll() override {
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
    if (asked == ncclSuccess) asked = state;
    if (asked == ncclInProgress) return GroupProgress::kWaiting;
    if (asked != ncclSuccess) return failed(nccl_error(asked, communicator_));
    if (!adding_) return GroupProgress::kDone;
    cudaSetDevice(device_);
    const cudaError_t stream = cudaStreamQuery(kDefaultStream);
    if (stream == cudaErrorNotReady) return GroupProgress::kWaiting;
    return stream == cudaSuccess ? GroupProgress::kDone : failed(told(stream).error());
  }

  Status begin_add(float* values, std::size_t count) override {
    if (Status here = told(cudaSetDevice(device_)); !here) return here;
    adding_ = true;
    const ncclResult_t result =
        ncclAllReduce(values, values, count, ncclFloat, ncclSum, communicator_, kDefaultStream);
    if (begun(result)) return {};
    return nccl_error(result, communicator_);
  }

  std::string trouble() const override { return trouble_; }

 private:
  GroupProgress failed(const Error& error) {
    trouble_ = error.message;
    return GroupProgress::kFailed;
  }

  const int device_;
  const ncclComm_t communicator_;
  bool adding_ = false;  // something was added since it was made
  std::string trouble_;
};

class NcclLibrary final : public CommunicatorLibrary {
 public:
  NcclLibrary(int device, int version) : device_(device), version_(version) {}

  std::int32_t version() const override { return version_; }
  std::string name() const override {
    return "NCCL " + std::to_string(version_ / 10000) + "." + std::to_string(version_ / 100 % 100) +
           "." + std::to_string(version_ % 100);
  }

  Result<CommunicatorId> make_id() override {
    ncclUniqueId unique;
    const ncclResult_t result = ncclGetUniqueId(&unique);
    if (result != ncclSuccess) return nccl_error(result, nullptr);
    CommunicatorId id;
    std::memcpy(id.data(), &unique, sizeof unique);
    return id;
  }

  Result<std::unique_ptr<Communicator>> begin(const CommunicatorId& id, int rank,
                                              int size) override {
    if (Status here = told(cudaSetDevice(device_)); !here) return here.error();
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&communicator, size, unique, rank, &config);
    if (begun(result)) {
      return std::unique_ptr<Communicator>(
          std::make_unique<NcclCommunicator>(device_, communicator));
    }
    const Error error = nccl_error(result, communicator);
    if (communicator != nullptr) ncclCommAbort(communicator);
    return error;
  }

 private:
  const int device_, version_;
};

}  // namespace

Result<std::unique_ptr<CommunicatorLibrary>> make_nccl_library(int device) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  if (device < 0 || device >= devices) {
    return Error{Code::kNotFound, "there is no CUDA device " + std::to_string(device), "",
                 "take an index that nvidia-smi lists"};
  }
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // read once, with the first communicator
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) return nccl_error(result, nullptr);
  return std::unique_ptr<CommunicatorLibrary>(std::make_unique<NcclLibrary>(device, version));
}

}  // namespace shoal::swarm
