/*
 * Sorted, for bsearch.  tests/real/diff_pickle.py holds it against an installed
 * torch.
 */
#include "pickle_safe.h"
#include <stdlib.h>
#include <string.h>

static const char *const safe[] = {
	"_codecs.encode",
	"builtins.bytearray",
	"builtins.complex",
	"builtins.set",
	"collections.Counter",
	"collections.OrderedDict",
	"torch.BFloat16Storage",
	"torch.BFloat16Tensor",
	"torch.BoolStorage",
	"torch.BoolTensor",
	"torch.ByteStorage",
	"torch.ByteTensor",
	"torch.CharStorage",
	"torch.CharTensor",
	"torch.ComplexDoubleStorage",
	"torch.ComplexFloatStorage",
	"torch.DoubleStorage",
	"torch.DoubleTensor",
	"torch.FloatStorage",
	"torch.FloatTensor",
	"torch.HalfStorage",
	"torch.HalfTensor",
	"torch.IntStorage",
	"torch.IntTensor",
	"torch.LongStorage",
	"torch.LongTensor",
	"torch.QInt32Storage",
	"torch.QInt8Storage",
	"torch.QUInt2x4Storage",
	"torch.QUInt4x2Storage",
	"torch.QUInt8Storage",
	"torch.ShortStorage",
	"torch.ShortTensor",
	"torch.Size",
	"torch.Tensor",
	"torch._tensor._rebuild_from_type_v2",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_meta_tensor_no_storage",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state",
	"torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_tensor",
	"torch._utils._rebuild_tensor_v2",
	"torch._utils._rebuild_tensor_v3",
	"torch._utils._rebuild_wrapper_subclass",
	"torch.bcomplex32",
	"torch.bfloat16",
	"torch.bits16",
	"torch.bits1x8",
	"torch.bits2x4",
	"torch.bits4x2",
	"torch.bits8",
	"torch.bool",
	"torch.complex128",
	"torch.complex32",
	"torch.complex64",
	"torch.cuda.BFloat16Storage",
	"torch.cuda.BFloat16Tensor",
	"torch.cuda.BoolStorage",
	"torch.cuda.BoolTensor",
	"torch.cuda.ByteStorage",
	"torch.cuda.ByteTensor",
	"torch.cuda.CharStorage",
	"torch.cuda.CharTensor",
	"torch.cuda.ComplexDoubleStorage",
	"torch.cuda.ComplexFloatStorage",
	"torch.cuda.DoubleStorage",
	"torch.cuda.DoubleTensor",
	"torch.cuda.FloatStorage",
	"torch.cuda.FloatTensor",
	"torch.cuda.HalfStorage",
	"torch.cuda.HalfTensor",
	"torch.cuda.IntStorage",
	"torch.cuda.IntTensor",
	"torch.cuda.LongStorage",
	"torch.cuda.LongTensor",
	"torch.cuda.ShortStorage",
	"torch.cuda.ShortTensor",
	"torch.cuda.sparse.BFloat16Tensor",
	"torch.cuda.sparse.ByteTensor",
	"torch.cuda.sparse.CharTensor",
	"torch.cuda.sparse.DoubleTensor",
	"torch.cuda.sparse.FloatTensor",
	"torch.cuda.sparse.HalfTensor",
	"torch.cuda.sparse.IntTensor",
	"torch.cuda.sparse.LongTensor",
	"torch.cuda.sparse.ShortTensor",
	"torch.device",
	"torch.distributed._mesh_layout._FlatLayout",
	"torch.distributed._mesh_layout._MeshLayout",
	"torch.distributed.device_mesh.DeviceMesh",
	"torch.distributed.tensor.DTensor",
	"torch.distributed.tensor._dtensor_spec.DTensorSpec",
	"torch.distributed.tensor._dtensor_spec.ShardOrderEntry",
	"torch.distributed.tensor._dtensor_spec.TensorMeta",
	"torch.distributed.tensor.placement_types.Partial",
	"torch.distributed.tensor.placement_types.Replicate",
	"torch.distributed.tensor.placement_types.Shard",
	"torch.distributed.tensor.placement_types._StridedShard",
	"torch.float16",
	"torch.float32",
	"torch.float4_e2m1fn_x2",
	"torch.float64",
	"torch.float8_e4m3fn",
	"torch.float8_e4m3fnuz",
	"torch.float8_e5m2",
	"torch.float8_e5m2fnuz",
	"torch.float8_e8m0fnu",
	"torch.int1",
	"torch.int16",
	"torch.int2",
	"torch.int3",
	"torch.int32",
	"torch.int4",
	"torch.int5",
	"torch.int6",
	"torch.int64",
	"torch.int7",
	"torch.int8",
	"torch.nn.parameter.Parameter",
	"torch.per_channel_affine",
	"torch.per_channel_affine_float_qparams",
	"torch.per_channel_symmetric",
	"torch.per_tensor_affine",
	"torch.per_tensor_symmetric",
	"torch.qint32",
	"torch.qint8",
	"torch.quint2x4",
	"torch.quint4x2",
	"torch.quint8",
	"torch.serialization._get_layout",
	"torch.sparse.BFloat16Tensor",
	"torch.sparse.ByteTensor",
	"torch.sparse.CharTensor",
	"torch.sparse.DoubleTensor",
	"torch.sparse.FloatTensor",
	"torch.sparse.HalfTensor",
	"torch.sparse.IntTensor",
	"torch.sparse.LongTensor",
	"torch.sparse.ShortTensor",
	"torch.storage.TypedStorage",
	"torch.storage.UntypedStorage",
	"torch.uint1",
	"torch.uint16",
	"torch.uint2",
	"torch.uint3",
	"torch.uint32",
	"torch.uint4",
	"torch.uint5",
	"torch.uint6",
	"torch.uint64",
	"torch.uint7",
	"torch.uint8",
};

#define NSAFE (sizeof(safe) / sizeof(*safe))
/* Longer than any of them. */
#define PATH_ROOM 128

static int by_text(const void *key, const void *entry)
{
	return strcmp(key, *(const char *const *)entry);
}

bool tasd_pickle_safe(const char *module, uint32_t module_len, const char *name,
	uint32_t name_len)
{
	static const char python2[] = "__builtin__";
	char path[PATH_ROOM];

	if (module_len == strlen(python2) &&
		memcmp(module, python2, module_len) == 0) {
		module = "builtins";
		module_len = (uint32_t)strlen(module);
	}
	if (!module_len || !name_len || module_len >= PATH_ROOM ||
		name_len >= PATH_ROOM || module_len + name_len + 2 > PATH_ROOM)
		return false;
	memcpy(path, module, module_len);
	path[module_len] = '.';
	memcpy(path + module_len + 1, name, name_len);
	path[module_len + 1 + name_len] = '\0';
	/* A NUL would make it look shorter than it is. */
	if (strlen(path) != (size_t)module_len + 1 + name_len)
		return false;
	return bsearch(path, safe, NSAFE, sizeof(*safe), by_text);
}

const char *tasd_pickle_safe_name(uint32_t n)
{
	return n < NSAFE ? safe[n] : NULL;
}
